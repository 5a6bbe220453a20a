"""Fields of pod templates that no version of the pinned API has: named as lost, and left out."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from trainyard.api import Body
from trainyard.api.job_set_schema import recorded_schema
from trainyard.jobs.convert.source import LegacySource, Path, parts_of

_TEMPLATE: Final = ("replicatedJobs", None, "template", "spec", "template")
_IDENTITY: Final = ("apiVersion", "kind")
_FIX: Final = "correct its name, or remove it: the API server rejects or drops it"


def drop_unknown_fields(source: LegacySource, template: Body, path: Path) -> None:
    """Remove the unknown fields of a pod template; metadata has its own notes."""
    for name in [name for name in template if name not in ("metadata", "spec")]:
        if name in _IDENTITY:
            source.same((*parts_of(path), name), "left out: a template is no object of its own")
            del template[name]
        else:
            _drop(source, template, name, parts_of(path))
    _walk(source, template.get("spec"), _schema()["properties"]["spec"], (*parts_of(path), "spec"))


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
    source.lost((*path, name), "is no field of a pod template: left out", _FIX)
    del value[name]


@cache
def _schema() -> Body:
    schema = recorded_schema()
    for name in _TEMPLATE:
        schema = schema["items"] if name is None else schema["properties"][name]
    return schema
