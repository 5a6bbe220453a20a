"""Fields of Kubernetes objects: a field that is missing or has another type has the empty value of its type."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import Any, Final

Body = Mapping[str, Any]

_NOTHING: Final[Mapping[str, Any]] = {}


def mapping(value: object, *path: str) -> Mapping[str, Any]:
    """Return a mapping below a value."""
    for step in path:
        # A plain dict is the usual case, and much faster to recognize.
        value = value.get(step) if type(value) is dict or isinstance(value, Mapping) else None
    return value if type(value) is dict or isinstance(value, Mapping) else _NOTHING


def sequence(value: object, *path: str) -> list[Mapping[str, Any]]:
    """Return the mappings of a list below a value."""
    found = mapping(value, *path[:-1]).get(path[-1]) if path else value
    if found is None or not isinstance(found, Sequence):
        return []
    return [each for each in found if type(each) is dict or isinstance(each, Mapping)]


def text(value: object, *path: str) -> str:
    """Return a text below a value."""
    found = mapping(value, *path[:-1]).get(path[-1])
    return found if isinstance(found, str) else ""


def whole(value: object, *path: str, default: int = 0) -> int:
    """Return an integer below a value."""
    found = mapping(value, *path[:-1]).get(path[-1])
    return found if isinstance(found, int) and not isinstance(found, bool) else default


def time(value: object, *path: str) -> datetime.datetime | None:
    """Return a time below a value, or None if it is missing or invalid."""
    found = text(value, *path)
    try:
        parsed = datetime.datetime.fromisoformat(found.replace("Z", "+00:00"))
    except ValueError:
        return None
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=datetime.UTC)


def name_of(body: object) -> str:
    """Return the name of an object."""
    return text(body, "metadata", "name")


def namespace_of(body: object) -> str:
    """Return the namespace of an object, empty for a cluster-scoped one."""
    return text(body, "metadata", "namespace")


def condition(body: object, kind: str, status: str | None = "True") -> Mapping[str, Any] | None:
    """Return the condition of a type and, unless it is None, a status."""
    for each in sequence(body, "status", "conditions"):
        if each.get("type") == kind and status in (None, each.get("status")):
            return each
    return None
