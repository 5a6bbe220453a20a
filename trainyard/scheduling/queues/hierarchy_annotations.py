"""The tree of queues that plug-in drf reads from annotations, and how ``spec`` says the same.

Upstream source: ``KubeHierarchyAnnotationKey`` and ``pkg/scheduler/plugins/drf`` of Volcano 1.14.1.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

_HIERARCHY: Final = "volcano.sh/hierarchy"
_WEIGHTS: Final = "volcano.sh/hierarchy-weights"
_READER: Final = "only plug-in drf with enableHierarchy reads"


def old_tree(body: Mapping[str, Any]) -> tuple[str, str, str] | None:
    """Return the key of a queue's first annotation, what is wrong with the annotations, and the fix.

    Return None if they are missing or empty.
    """
    metadata, spec = body.get("metadata"), body.get("spec")
    annotations = metadata.get("annotations") if isinstance(metadata, Mapping) else None
    if not isinstance(annotations, Mapping):
        return None
    found = {key: str(annotations[key]) for key in (_HIERARCHY, _WEIGHTS) if annotations.get(key)}
    if not found:
        return None
    shown = " and ".join(f"{key}: {value[:80]}" for key, value in found.items())
    wanted = _spec(found)
    given = spec if isinstance(spec, Mapping) else {}
    left = {name: value for name, value in wanted.items() if str(given.get(name, "")) != value}
    written = " and ".join(f"{name}: {value}" for name, value in left.items())
    fix = f"write {written} in spec, and remove the annotations" if written else "remove the annotations"
    return next(iter(found)), f"annotation {shown}, which {_READER}", fix


def _spec(annotations: Mapping[str, str]) -> dict[str, str]:
    """Return parent and weight of the queue, which the annotations name as the paths from root to it."""
    path, weights = (annotations.get(key, "").strip("/").split("/") for key in (_HIERARCHY, _WEIGHTS))
    found = {}
    if len(path) > 1:
        found["parent"] = path[-2]
    # A share between siblings; spec.weight is whole, and proportion alone reads it.
    if len(weights) > 1 and weights[-1].isdecimal() and int(weights[-1]) > 0:
        found["weight"] = weights[-1]
    return found
