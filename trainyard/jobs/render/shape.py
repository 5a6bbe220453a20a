"""Schema checks of plain objects before they are rendered.

The API server guarantees this schema for stored objects, but manifests in files may violate it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from trainyard import quantity
from trainyard.api import Body
from trainyard.checks.finding import Finding

_NAMES: Final = {str: "text", int: "a whole number", bool: "true or false", dict: "an object", list: "a list"}


@dataclass(frozen=True)
class _Object:
    """Schema of an object; other fields are allowed."""

    fields: Mapping[str, Any]
    required: tuple[str, ...] = ()


@dataclass(frozen=True)
class _List:
    """Schema of a list; the values of ``key`` are unique."""

    item: Any
    key: str | None = None


@dataclass(frozen=True)
class _Texts:
    """Schema of an object with string values."""


@dataclass(frozen=True)
class _Amounts:
    """Schema of an object with quantities as values."""


_ANY: Final = _Object({})
_METADATA: Final = _Object({"name": str, "labels": _Texts(), "annotations": _Texts(), "finalizers": _List(str)})
_NAMED: Final = _Object({"name": str}, ("name",))

ENV: Final = _List(_Object({"name": str, "value": str, "valueFrom": _ANY}, ("name",)), "name")
"""Environment variables."""

RESOURCES: Final = _Object({"limits": _Amounts(), "requests": _Amounts(), "claims": _List(_NAMED)})
"""Compute resources."""

VOLUME_MOUNTS: Final = _List(_Object({"name": str, "mountPath": str}, ("name", "mountPath")))
"""Volume mounts."""

_CONTAINER: Final = _Object(
    {
        "name": str,
        "image": str,
        "command": _List(str),
        "args": _List(str),
        "env": ENV,
        "envFrom": _List(_ANY),
        "ports": _List(_Object({"containerPort": int, "protocol": str, "name": str}, ("containerPort",))),
        "resources": RESOURCES,
        "restartPolicy": str,
        "securityContext": _ANY,
        "volumeMounts": VOLUME_MOUNTS,
    },
    ("name",),
)

_POD_SPEC: Final = _Object(
    {
        "affinity": _ANY,
        "containers": _List(_CONTAINER, "name"),
        "imagePullSecrets": _List(_Object({"name": str})),
        "initContainers": _List(_CONTAINER, "name"),
        "nodeSelector": _Texts(),
        "overhead": _Amounts(),
        "priorityClassName": str,
        "resources": RESOURCES,
        "schedulerName": str,
        "schedulingGates": _List(_NAMED),
        "securityContext": _ANY,
        "tolerations": _List(_ANY),
        "volumes": _List(_NAMED, "name"),
    },
    ("containers",),
)

_POD_TEMPLATE: Final = _Object({"metadata": _METADATA, "spec": _POD_SPEC}, ("spec",))
_JOB_SPEC: Final = _Object(
    {"parallelism": int, "completions": int, "completionMode": str, "template": _POD_TEMPLATE}, ("template",)
)
_REPLICATED_JOB: Final = _Object(
    {
        "name": str,
        "groupName": str,
        "replicas": int,
        "template": _Object({"metadata": _METADATA, "spec": _JOB_SPEC}, ("spec",)),
        "dependsOn": _List(_Object({"name": str, "status": str}, ("name", "status"))),
    },
    ("name", "template"),
)

_FAILURE_RULE: Final = _Object(
    {"name": str, "action": str, "onJobFailureReasons": _List(str), "targetReplicatedJobs": _List(str)}, ("action",)
)

JOB_SET_SPEC: Final = _Object(
    {
        "replicatedJobs": _List(_REPLICATED_JOB, "name"),
        "network": _Object({"subdomain": str}),
        "startupPolicy": _Object({"startupPolicyOrder": str}),
        "successPolicy": _Object({"operator": str, "targetReplicatedJobs": _List(str)}),
        "failurePolicy": _Object({"restartStrategy": str, "maxRestarts": int, "rules": _List(_FAILURE_RULE)}),
        "coordinator": _Object({"replicatedJob": str, "jobIndex": int, "podIndex": int}, ("replicatedJob",)),
        "managedBy": str,
        "volumeClaimPolicies": _List(_Object({"templates": _List(_Object({"metadata": _METADATA}))})),
    }
)
"""A JobSet specification."""


def pod_fields() -> Mapping[str, Any]:
    """Return the schemas of pod fields by name, for patches of single fields."""
    return _POD_SPEC.fields


def shape_errors(value: Any, shape: Any, path: str) -> Iterator[Finding]:
    """Yield violations of a schema.

    Parameters
    ----------
    value
        JSON data without nulls.
    shape
        A schema of this module.
    path
        Path of the value in findings.
    """
    if isinstance(shape, _Object):
        yield from _object_errors(value, shape, path)
    elif isinstance(shape, _List):
        yield from _list_errors(value, shape, path)
    elif isinstance(shape, _Texts):
        yield from _map_errors(value, path)
    elif isinstance(shape, _Amounts):
        yield from _amount_errors(value, path)
    elif not _is(value, shape):
        yield _mistyped(value, shape, path)


def _is(value: Any, kind: type) -> bool:
    return isinstance(value, kind) and (kind is bool or not isinstance(value, bool))


def _mistyped(value: Any, kind: type, path: str) -> Finding:
    return Finding(path, f"must be {_NAMES[kind]}, but is {_shown(value)}", "correct the type")


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _object_errors(value: Any, shape: _Object, path: str) -> Iterator[Finding]:
    if not isinstance(value, dict):
        yield _mistyped(value, dict, path)
        return
    for name in shape.required:
        if name not in value:
            yield Finding(f"{path}.{name}", "Field required", "add it")
    for name, inner in shape.fields.items():
        if name in value and type(value[name]) is not inner:
            yield from shape_errors(value[name], inner, f"{path}.{name}")


def _list_errors(value: Any, shape: _List, path: str) -> Iterator[Finding]:
    if not isinstance(value, list):
        yield _mistyped(value, list, path)
        return
    seen: set[str] = set()
    for index, item in enumerate(value):
        if type(item) is not shape.item:
            yield from shape_errors(item, shape.item, f"{path}[{index}]")
        key = item.get(shape.key) if shape.key and isinstance(item, dict) else None
        if isinstance(key, str):
            if key in seen:
                yield Finding(f"{path}[{index}]", f"{key!r} is a duplicate", "keep one of them")
            seen.add(key)


def _map_errors(value: Any, path: str) -> Iterator[Finding]:
    if not isinstance(value, dict):
        yield _mistyped(value, dict, path)
        return
    for name, text in value.items():
        if not isinstance(name, str) or not isinstance(text, str):
            yield Finding(f"{path}[{name}]", f"must be text, but is {_shown(text)}", "put it in quotes")


def _amount_errors(value: Body | Any, path: str) -> Iterator[Finding]:
    if not isinstance(value, dict):
        yield _mistyped(value, dict, path)
        return
    for name, amount in value.items():
        try:
            parsed = quantity.parse(amount)
            if parsed.numerator < 0:
                yield Finding(f"{path}[{name}]", f"{amount!r} is negative", "use zero or more")
            elif parsed > quantity.LARGEST:
                yield Finding(f"{path}[{name}]", f"{amount!r} is more than 8P", "use a smaller amount")
        except ValueError as error:
            yield Finding(f"{path}[{name}]", str(error), "use a Kubernetes quantity")
