"""Golden files: reviewed like code, rewritten with ``TRAINYARD_UPDATE_GOLDENS=1``."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

_DIGITS = 12
_MOST_LINES = 1500
"""Longer golden files are not reviewed."""


def assert_golden(path: Path, text: str) -> None:
    """Compare a text with its golden file."""
    if os.environ.get("TRAINYARD_UPDATE_GOLDENS"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert path.is_file(), f"{path} does not exist: make generate writes it"
    assert text == path.read_text(), f"{path} differs: make generate writes it again; review its diff"


def assert_golden_objects(
    path: Path,
    bodies: Iterable[Mapping[str, Any]],
    examples: Collection[str],
    *,
    facts: Mapping[str, str] | None = None,
) -> None:
    """Compare Kubernetes objects with a golden file: some in full, of the others what they are and a digest.

    A digest that changes names the object to look at.

    Parameters
    ----------
    path
        The golden file.
    bodies
        The objects, in a stable order.
    examples
        Names as in the file (``Kind namespace/name``) of the objects that stand there in full.
    facts
        What to say of an object beside its digest, by its name.
    """
    listed = list(bodies)
    by_name = {_name(body): body for body in listed}
    assert len(by_name) == len(listed)
    assert set(examples) <= set(by_name), sorted(set(examples) - set(by_name))
    lines = [f"# {len(by_name)} objects: name, digest of the content", "objects:"]
    for name, body in by_name.items():
        said = f"  # {facts[name]}" if facts and name in facts else ""
        lines.append(f"- {name} {_digest(body)}{said}")
    lines += ["examples:"]
    text = (
        "\n".join(lines) + "\n" + yaml.safe_dump([dict(by_name[name]) for name in examples], sort_keys=True, width=110)
    )
    assert text.count("\n") <= _MOST_LINES
    assert_golden(path, text)


def _name(body: Mapping[str, Any]) -> str:
    metadata = body["metadata"]
    return f"{body['kind']} {'/'.join(filter(None, (metadata.get('namespace'), metadata['name'])))}"


def _digest(body: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True, ensure_ascii=False).encode()).hexdigest()[:_DIGITS]
