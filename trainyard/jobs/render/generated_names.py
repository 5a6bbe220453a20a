"""Objects with ``generateName``: a placeholder for the name that the API server generates when they are created."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from trainyard.api import Body
from trainyard.checks.finding import Finding

_SUFFIX: Final = "xxxxx"
"""Stands for the five random characters that the API server appends."""
_LONGEST_PREFIX: Final = 63 - len(_SUFFIX)
"""The API server cuts longer prefixes."""
_NAME: Final = "metadata.name"
_PREFIX: Final = "metadata.generateName"


def generated_name(body: Body) -> str | None:
    """Return a name like the one that the API server generates, or None if the object has a name or no prefix."""
    metadata = body.get("metadata")
    if not isinstance(metadata, dict) or metadata.get("name"):
        return None
    prefix = metadata.get("generateName")
    return f"{prefix[:_LONGEST_PREFIX]}{_SUFFIX}" if isinstance(prefix, str) and prefix else None


def with_name(body: Body) -> Body:
    """Return an object with a placeholder instead of a missing name, if it has a prefix."""
    name = generated_name(body)
    return body if name is None else {**body, "metadata": {**body["metadata"], "name": name}}


def about_prefix(findings: Iterable[Finding]) -> Iterator[Finding]:
    """Yield findings about an object without a name. Those about the name are reported at its prefix."""
    for finding in findings:
        if finding.path != _NAME:
            yield finding
            continue
        fix = f"{finding.fix}; the API server appends {len(_SUFFIX)} characters to generateName"
        yield replace(finding, path=_PREFIX, fix=fix)
