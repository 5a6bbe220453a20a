"""Fields that new pods do not have: unknown to the pinned API, or set by the Job. They are noted and left out."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from trainyard.api import Body
from trainyard.api.job_set_schema import recorded_schema
from trainyard.jobs.convert.source import LegacySource, Path, parts_of
from trainyard.jobs.render.pod_editing import copied

_TEMPLATE: Final = ("replicatedJobs", "template", "spec", "template")
_IDENTITY: Final = ("apiVersion", "kind")
_KEPT_METADATA: Final = ("labels", "annotations", "finalizers")
SERVER_FIELDS: Final = (
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "generation",
    "managedFields",
    "resourceVersion",
    "selfLink",
    "uid",
)
_NOT_OF_PODS: Final = (*SERVER_FIELDS, "generateName", "name", "namespace", "ownerReferences")
_FIX: Final = "correct its name, or remove it: the API server rejects or drops it"


def drop_unused_fields(source: LegacySource, template: Body, path: Path) -> None:
    """Remove the unknown fields of a pod template, and those of its metadata that the Job sets."""
    own = parts_of(path)
    metadata = template.get("metadata", {})
    for name in [name for name in metadata if name not in _KEPT_METADATA]:
        if name in _NOT_OF_PODS:
            source.changed((*own, "metadata", name), "pods get their names and places from the Job")
            del metadata[name]
        else:
            _drop(source, metadata, name, (*own, "metadata"))
    for name in [name for name in template if name not in ("metadata", "spec")]:
        if name in _IDENTITY:
            source.same((*own, name), "left out: a template is no object of its own")
            del template[name]
        else:
            _drop(source, template, name, own)
    _walk(source, template.get("spec"), _schema("spec"), (*own, "spec"))


def known_fields(source: LegacySource, value: Any, path: Path, *place: str) -> Any:
    """Return a copy of a value that becomes a part of a pod's spec, without unknown fields.

    Parameters
    ----------
    path
        Path of the value in the legacy job.
    place
        Names of the fields of the spec that lead to its new place.
    """
    found = copied(value)
    _walk(source, found, _schema("spec", *place), parts_of(path))
    return found


def _walk(source: LegacySource, value: Any, schema: Body, path: tuple[str | int, ...]) -> None:
    if isinstance(value, list):
        for index, item in enumerate(value):
            _walk(source, item, schema.get("items", {}), (*path, index))
        return
    fields = schema.get("properties")
    if not isinstance(value, dict) or fields is None:
        return
    for name in list(value):
        if name in fields:
            _walk(source, value[name], fields[name], (*path, name))
        elif not schema.get("x-kubernetes-preserve-unknown-fields"):
            _drop(source, value, name, path)


def _drop(source: LegacySource, value: Body, name: str, path: tuple[str | int, ...]) -> None:
    # Pods of several roles may have one volume.
    source.forget((*path, name))
    source.lost((*path, name), "is not a field of a pod template: left out", _FIX)
    del value[name]


@cache
def _schema(*names: str) -> Body:
    schema = recorded_schema()
    for name in (*_TEMPLATE, *names):
        schema = schema.get("items", schema)["properties"][name]
    return schema
