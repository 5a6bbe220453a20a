"""Field paths of the API server, such as ``spec.containers[0].env[1].name``, and where another object has the field."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

_STEP: Final = re.compile(r"\[([^\[\]]*)\]|([^.\[\]]+)")
_KEYS: Final = ("mountPath", "devicePath", "containerPort", "name", "key", "topologyKey", "ip")
"""Fields that identify the elements of lists in pods, as in strategic merge patches; the first that an element has."""
_METADATA: Final = ("labels", "annotations")


@dataclass(frozen=True)
class PathMatch:
    """The part of a field path that an object has.

    Parameters
    ----------
    path
        Path in the object, up to the first missing field.
    missing
        Number of missing fields.
    elements
        Number of list elements on the path.
    """

    path: str
    missing: int
    elements: int


def steps_of(path: str) -> list[str | int]:
    """Return the steps of a field path: names of fields, keys of mappings, and indices of lists."""
    found: list[str | int] = []
    for inside, name in _STEP.findall(path):
        found.append(int(inside) if inside.isdigit() else inside or name)
    return found


def match(steps: Sequence[str | int], rendered: Any, candidate: Any) -> PathMatch:
    """Return how much of a path an object has; elements of lists are compared with those of the rendered object.

    Parameters
    ----------
    steps
        Path in the rendered object.
    rendered, candidate
        The rendered object, and the one from which it may originate.
    """
    path, elements, position = "", 0, 0
    while position < len(steps):
        step = steps[position]
        if isinstance(candidate, list):
            index = _same_element(step, rendered, candidate)
            if index is None:
                break
            path, elements = f"{path}[{index}]", elements + 1
            rendered, candidate = rendered[step], candidate[index]
        elif isinstance(candidate, Mapping):
            name = str(step)
            # The API server names the metadata of a pod template without `metadata`.
            if name in _METADATA and name not in candidate and name in (candidate.get("metadata") or {}):
                path = _with_step(path, "metadata")
                rendered, candidate = _get(rendered, "metadata"), candidate["metadata"]
            if name not in candidate:
                break
            path = _with_step(path, name)
            rendered, candidate = _get(rendered, name), candidate[name]
        else:
            break
        position += 1
    return PathMatch(path, len(steps) - position, elements)


def _same_element(step: str | int, rendered: Any, candidate: list[Any]) -> int | None:
    if not isinstance(step, int) or not isinstance(rendered, list) or step >= len(rendered):
        return None
    element = rendered[step]
    if element in candidate:
        return candidate.index(element)
    if not isinstance(element, Mapping):
        return None
    for key in _KEYS:
        if key in element:
            same = (index for index, each in enumerate(candidate) if _get(each, key) == element[key])
            return next(same, None)
    return None


def _get(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, Mapping) else None


def _with_step(path: str, name: str) -> str:
    if not re.fullmatch(r"\w+", name):
        return f"{path}[{name}]"
    return f"{path}.{name}" if path else name
