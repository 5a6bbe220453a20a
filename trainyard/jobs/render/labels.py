"""Labels and annotations of the JobSet: precedence and validation."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from trainyard.api import TrainJobSpec
from trainyard.checks.finding import Finding
from trainyard.jobs.render.dns import is_subdomain
from trainyard.jobs.render.patches import patched_metadata
from trainyard.jobs.render.template import Template

_LABEL: Final = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")
_MAX_VALUE_LENGTH: Final = 63
_FIX: Final = "use at most 63 letters, digits, - _ and ., beginning and ending with a letter or a digit"
_KEY_FIX: Final = f"{_FIX}; a domain and a slash may come before"


def merged_metadata(spec: TrainJobSpec, template: Template) -> tuple[dict[str, str], dict[str, str]]:
    """Return labels and annotations of the JobSet.

    Precedence, lowest first: runtime, spec of the TrainJob, its runtime patches in order. The metadata of the
    TrainJob is not copied.
    """
    labels = {**template.labels, **(spec.labels or {})}
    annotations = {**template.annotations, **(spec.annotations or {})}
    for metadata in patched_metadata(spec):
        labels.update(metadata.labels or {})
        annotations.update(metadata.annotations or {})
    return labels, annotations


def check_metadata(path: str, labels: Mapping[str, str], annotations: Mapping[str, str]) -> Iterator[Finding]:
    """Yield labels and annotations that the API server rejects.

    Parameters
    ----------
    path
        Path of the object that contains them.
    """
    for kind, entries in (("labels", labels), ("annotations", annotations)):
        for key in entries:
            if not is_qualified_name(key if kind == "labels" else key.lower()):
                yield Finding(f"{path}.{kind}[{key}]", f"{key!r} is not a valid key of {kind}", _KEY_FIX)
    for key, value in labels.items():
        if not _is_label(value):
            yield Finding(f"{path}.labels[{key}]", f"{value!r} is not a valid label value", _FIX)


def is_qualified_name(key: str) -> bool:
    """Return whether a text is a name with an optional domain, the syntax of label keys and finalizers."""
    domain, slash, name = key.rpartition("/")
    if slash and not is_subdomain(domain):
        return False
    return bool(name) and _is_label(name)


def _is_label(value: str) -> bool:
    return len(value) <= _MAX_VALUE_LENGTH and _LABEL.fullmatch(value) is not None
