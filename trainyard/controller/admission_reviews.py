"""AdmissionReviews as the API server sends them: anything else is refused before a handler sees it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import orjson

from trainyard.errors import TrainyardError

Request = dict[str, Any]


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_text_list(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def _is_text_map(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(each, str) for each in value.values())


def _is_object_list(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, dict) for each in value)


_OPTIONAL: Final[Mapping[str, Callable[[Any], bool]]] = {
    "name": _is_text,
    "namespace": _is_text,
    "operation": _is_text,
    "kind.kind": _is_text,
    "options.fieldManager": _is_text,
    "userInfo.username": _is_text,
    "userInfo.groups": _is_text_list,
}
"""Fields of a request that handlers read, and the type of each, if set."""
_METADATA: Final[Mapping[str, Callable[[Any], bool]]] = {
    "name": _is_text,
    "generateName": _is_text,
    "namespace": _is_text,
    "uid": _is_text,
    "resourceVersion": _is_text,
    "creationTimestamp": _is_text,
    "deletionTimestamp": _is_text,
    "labels": _is_text_map,
    "annotations": _is_text_map,
    "finalizers": _is_text_list,
    "ownerReferences": _is_object_list,
}


def read_review(data: bytes, kind: str) -> tuple[str, Request]:
    """Return the version of an AdmissionReview, and its request; the object of a deletion is the one that is deleted.

    Parameters
    ----------
    data
        The body of the HTTP request.
    kind
        Kind of the object.

    Raises
    ------
    TrainyardError
        The API server sends no such review: it has decoded the object, whose metadata therefore has the right types.
    """
    try:
        review = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise TrainyardError("not JSON") from error
    request = review.get("request") if isinstance(review, dict) else None
    if not isinstance(request, dict) or not isinstance(request.get("uid"), str):
        raise TrainyardError("not an AdmissionReview with a request")
    version = review.get("apiVersion", "admission.k8s.io/v1")
    if not isinstance(version, str):
        raise TrainyardError("apiVersion is not a text")
    for path, fits in _OPTIONAL.items():
        _require(request, path, fits)
    if request.get("operation") == "DELETE":
        # Handlers read what is deleted like every other object.
        request["object"] = request.get("oldObject")
    _require_object(request.get("object"), "object", kind)
    if request.get("oldObject") is not None:
        _require_object(request["oldObject"], "oldObject", kind)
    return version, request


def _require(holder: Mapping[str, Any], path: str, fits: Callable[[Any], bool]) -> None:
    """Require that what stands at a path, if anything does, fits."""
    value: Any = holder
    for name in path.split("."):
        if value is None:
            return
        if not isinstance(value, dict):
            raise TrainyardError(f"{path.rpartition('.')[0]} is not an object")
        value = value.get(name)
    if value is not None and not fits(value):
        raise TrainyardError(f"{path} has a wrong type")


def _require_object(value: Any, field: str, kind: str) -> None:
    if not isinstance(value, dict) or value.get("kind") != kind or not isinstance(value.get("metadata"), dict):
        raise TrainyardError(f"{field} is not a {kind} with metadata")
    for name, fits in _METADATA.items():
        _require(value["metadata"], name, fits)
