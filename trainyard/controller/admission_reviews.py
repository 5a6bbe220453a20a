"""AdmissionReviews as the API server sends them: anything else is refused before a handler sees it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import orjson

from trainyard.errors import TrainyardError

Request = dict[str, Any]


def _text(value: Any) -> bool:
    return isinstance(value, str)


def _texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def _names(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(each, str) for each in value.values())


def _objects(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, dict) for each in value)


_OPTIONAL: Final[Mapping[str, Callable[[Any], bool]]] = {
    "name": _text,
    "namespace": _text,
    "operation": _text,
    "kind.kind": _text,
    "options.fieldManager": _text,
    "userInfo.username": _text,
    "userInfo.groups": _texts,
}
"""Fields of a request that handlers read, and what they are if they are there."""
_METADATA: Final[Mapping[str, Callable[[Any], bool]]] = {
    "name": _text,
    "generateName": _text,
    "namespace": _text,
    "uid": _text,
    "resourceVersion": _text,
    "creationTimestamp": _text,
    "deletionTimestamp": _text,
    "labels": _names,
    "annotations": _names,
    "finalizers": _texts,
    "ownerReferences": _objects,
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
