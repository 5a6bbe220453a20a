"""Null labels, annotations and selectors of manifests, as the API server decodes them: empty texts.

Seen with a server-side dry run: `null` in the metadata of any object and in a field of type map[string]string of a
built-in kind is stored as "". The schema of a custom resource drops it from the metadata of its templates.
"""

from __future__ import annotations

from typing import Any, Final

from trainyard.api import Body

_MAPS: Final = frozenset({"labels", "annotations", "matchLabels", "nodeSelector"})


def with_empty_texts(body: Body) -> Body:
    """Return an object without null labels, annotations and selectors; the same one if it has none."""
    group = str(body["apiVersion"]).rpartition("/")[0]
    if "." not in group:
        found: Body = _decoded(body)
        return found
    metadata = body.get("metadata")
    decoded = _decoded(metadata)
    return body if decoded is metadata else {**body, "metadata": decoded}


def _decoded(value: Any) -> Any:
    if isinstance(value, dict):
        parts = {key: _texts(each) if key in _MAPS else _decoded(each) for key, each in value.items()}
        return parts if any(parts[key] is not value[key] for key in parts) else value
    if isinstance(value, list):
        items = [_decoded(each) for each in value]
        return items if any(item is not each for item, each in zip(items, value, strict=True)) else value
    return value


def _texts(values: Any) -> Any:
    if not isinstance(values, dict) or None not in values.values():
        return values
    return {key: "" if value is None else value for key, value in values.items()}
