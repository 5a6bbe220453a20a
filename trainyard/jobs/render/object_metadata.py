"""Metadata of a submitted object, validated as the API server does.

The rules are those of apimachinery's pkg/api/validation/objectmeta.go. Fields that the API server sets itself
(``resourceVersion``, ``managedFields``, …) are not validated: exported manifests have them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from trainyard.api import Body
from trainyard.checks.finding import Finding
from trainyard.jobs.render.dns import is_subdomain
from trainyard.jobs.render.labels import check_metadata, is_qualified_name

_PATH: Final = "metadata"
_MOST_ANNOTATION_BYTES: Final = 256 * 1024
_NAMESPACE: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_REQUIRED_OF_OWNERS: Final = ("apiVersion", "kind", "name", "uid")
_EXCLUSIVE: Final = {"orphan", "foregroundDeletion"}
_TEXTS: Final = ("name", "namespace", "generateName")


def metadata_errors(body: Body) -> Iterator[Finding]:
    """Yield violations in the metadata of an object.

    Parameters
    ----------
    body
        The object; its metadata is an object with a name.
    """
    metadata = {key: value for key, value in body["metadata"].items() if value is not None}
    mistyped = tuple(_type_errors(metadata))
    if mistyped:
        yield from mistyped
        return
    name, namespace = metadata.get("name", ""), metadata.get("namespace", "")
    if not is_subdomain(name):
        fix = "use at most 253 lower-case letters, digits, - and ., beginning and ending with a letter or a digit"
        yield Finding(f"{_PATH}.name", f"{name!r} is not an RFC 1123 subdomain", fix)
    if namespace and not _NAMESPACE.fullmatch(namespace):
        fix = "use at most 63 lower-case letters, digits and -, beginning and ending with a letter or a digit"
        yield Finding(f"{_PATH}.namespace", f"{namespace!r} is not an RFC 1123 label", fix)
    labels, annotations = (_without_nulls(metadata.get(field, {})) for field in ("labels", "annotations"))
    yield from check_metadata(_PATH, labels, annotations)
    size = sum(len(text.encode()) for entry in annotations.items() for text in entry)
    if size > _MOST_ANNOTATION_BYTES:
        message = f"has {size} bytes; the API server stores at most {_MOST_ANNOTATION_BYTES}"
        yield Finding(f"{_PATH}.annotations", message, "remove some")
    yield from _finalizer_errors(metadata.get("finalizers", ()))
    yield from _owner_errors(metadata.get("ownerReferences", ()))


def _type_errors(metadata: Mapping[str, Any]) -> Iterator[Finding]:
    for field in _TEXTS:
        if not isinstance(metadata.get(field, ""), str):
            yield _mistyped(f"{_PATH}.{field}", "text", metadata[field])
    for field in ("labels", "annotations"):
        entries = metadata.get(field, {})
        if not isinstance(entries, dict):
            yield _mistyped(f"{_PATH}.{field}", "an object", entries)
            continue
        for key, value in entries.items():
            if value is not None and not isinstance(value, str):
                yield _mistyped(f"{_PATH}.{field}[{key}]", "text", value)
    for field, kind, name in (("finalizers", str, "text"), ("ownerReferences", dict, "an object")):
        entries = metadata.get(field, [])
        if not isinstance(entries, list):
            yield _mistyped(f"{_PATH}.{field}", "a list", entries)
            continue
        for index, value in enumerate(entries):
            if not isinstance(value, kind):
                yield _mistyped(f"{_PATH}.{field}[{index}]", name, value)


def _without_nulls(entries: Mapping[str, str | None]) -> dict[str, str]:
    return {key: value for key, value in entries.items() if value is not None}


def _mistyped(path: str, kind: str, value: Any) -> Finding:
    return Finding(path, f"must be {kind}, but is {value!r}", "put it in quotes" if kind == "text" else "correct it")


def _finalizer_errors(finalizers: list[str] | tuple[()]) -> Iterator[Finding]:
    for index, finalizer in enumerate(finalizers):
        if not is_qualified_name(finalizer):
            message = f"{finalizer!r} is not a qualified name"
            yield Finding(f"{_PATH}.finalizers[{index}]", message, "use a domain, a slash and a name")
    if set(finalizers) >= _EXCLUSIVE:
        yield Finding(f"{_PATH}.finalizers", f"has both {' and '.join(sorted(_EXCLUSIVE))}", "keep one of them")


def _owner_errors(owners: list[Body] | tuple[()]) -> Iterator[Finding]:
    for index, owner in enumerate(owners):
        for field in _REQUIRED_OF_OWNERS:
            value = owner.get(field)
            if not isinstance(value, str) or not value:
                yield Finding(f"{_PATH}.ownerReferences[{index}].{field}", "Field required", "add it")
    if sum(owner.get("controller") is True for owner in owners) > 1:
        yield Finding(f"{_PATH}.ownerReferences", "several owners have controller: true", "keep it for one of them")
