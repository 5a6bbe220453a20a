"""Schema of the JobSet template, recorded in compact notation so that manifests are validated without upstream's CRD.

``job_set_schema.json`` has one entry per object type: its fields with their types. A type is a scalar, the name of
another entry, ``[item]`` or ``{value}``; words after it are attributes, such as ``[Env] list=map keys=name``. A field
whose name ends in ``!`` is required. ``python -m tools.reference.job_set_schema`` writes the file from the pinned
CRD; a test compares both.
"""

from __future__ import annotations

import json
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any, Final

from trainyard.api.kubernetes_model import Body
from trainyard.api.shape_rule import ShapeRule, validations

FILE: Final = Path(__file__).with_suffix(".json")
"""The recorded schema."""

ROOT: Final = "JobSetSpec"
"""Entry of the JobSet specification."""

_NUMBER: Final = r"(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
QUANTITY: Final = rf"^(\+|-)?{_NUMBER}(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?{_NUMBER}))?$"
"""Pattern of quantities in the CRD."""

_INT_OR_STRING: Final = {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": True}
SCALARS: Final[dict[str, Body]] = {
    "boolean": {"type": "boolean"},
    "date-time": {"type": "string", "format": "date-time"},
    "int-or-string": _INT_OR_STRING,
    "int32": {"type": "integer", "format": "int32"},
    "int64": {"type": "integer", "format": "int64"},
    "integer": {"type": "integer"},
    "object": {"type": "object"},
    "quantity": {**_INT_OR_STRING, "pattern": QUANTITY},
    "string": {"type": "string"},
}
"""Schemas of the types that are not objects with fields."""

RULES: Final = {
    "immutable": ShapeRule("self == oldSelf", "Value is immutable", fix="create a runtime with another name instead"),
    "no-namespace": ShapeRule(
        "self.templates.all(t, !has(t.metadata.namespace) || size(t.metadata.namespace) == 0)",
        "namespace cannot be set for VolumeClaimPolicies templates",
        fix="remove it",
        holds=lambda value: _has_no_namespaces(value),
    ),
    "no-order-with-dependencies": ShapeRule(
        "!(has(self.startupPolicy) && self.startupPolicy.startupPolicyOrder == 'InOrder' && "
        "self.replicatedJobs.exists(x, has(x.dependsOn)))",
        "StartupPolicy and DependsOn APIs are mutually exclusive",
        fix="remove startupPolicy, or the dependencies",
        holds=lambda value: not (_is_ordered(value) and _has_dependencies(value)),
    ),
}
"""CEL rules of JobSet's CRD, by their name in the recorded schema."""

_PODS: Final = ("replicatedJobs", "items", "template", "spec", "template", "spec")


def _has_no_namespaces(policy: Body) -> bool:
    """Return whether no claim has a namespace; as in CEL, a missing list or missing metadata is an error too."""
    templates = policy.get("templates")
    return templates is not None and all(
        "metadata" in entry and not entry["metadata"].get("namespace") for entry in templates
    )


def _is_ordered(spec: Body) -> bool:
    return bool(spec.get("startupPolicy", {}).get("startupPolicyOrder") == "InOrder")


def _has_dependencies(spec: Body) -> bool:
    """Return whether a replicatedJob has dependencies; as in CEL, a missing list is an error too."""
    jobs = spec.get("replicatedJobs")
    return jobs is None or any("dependsOn" in job for job in jobs)


class RecordedParts:
    """Parts of the recorded schema, as :class:`trainyard.api.schema.JobSetParts` returns them."""

    def part(self, name: str) -> Body:
        """Return a copy of one part.

        Raises
        ------
        KeyError
            If JobSet's schema has no such part.
        """
        scope, _, field = name.partition(".")
        steps = {"spec": (), "pod": (*_PODS, field), "container": (*_PODS, "containers", "items", field)}[scope]
        schema = recorded_schema()
        for step in steps:
            schema = schema["items"] if step == "items" else schema["properties"][step]
        return deepcopy(schema)


@cache
def recorded_schema() -> Body:
    """Return the schema of a JobSet specification; must not be modified."""
    recorded = json.loads(FILE.read_text())
    return _Reader(recorded["types"]).schema(recorded["schema"])


class _Reader:
    def __init__(self, types: dict[str, dict[str, str]]) -> None:
        self._types = types

    def schema(self, text: str) -> Body:
        """Return the schema of a type in compact notation."""
        base, *attributes = text.split(" ")
        result = self._base(base)
        for attribute in attributes:
            name, _, value = attribute.partition("=")
            result.update(_ATTRIBUTES[name](value))
        return result

    def _base(self, base: str) -> Body:
        if base.startswith("["):
            return {"type": "array", "items": self.schema(base[1:-1].replace("~", " "))}
        if base.startswith("{"):
            return {"type": "object", "additionalProperties": self.schema(base[1:-1].replace("~", " "))}
        if base in SCALARS:
            return deepcopy(SCALARS[base])
        fields = self._types[base]
        properties = {name.removesuffix("!"): self.schema(text) for name, text in fields.items()}
        required = [name.removesuffix("!") for name in fields if name.endswith("!")]
        return {"type": "object", "properties": properties, **({"required": required} if required else {})}


def _words(key: str) -> Any:
    return lambda value: {key: value.split(",")}


def _json(key: str) -> Any:
    return lambda value: {key: json.loads(value)}


_ATTRIBUTES: Final[dict[str, Any]] = {
    "default": _json("default"),
    "enum": _words("enum"),
    "keys": _words("x-kubernetes-list-map-keys"),
    "list": lambda value: {"x-kubernetes-list-type": value},
    "map": lambda value: {"x-kubernetes-map-type": value},
    "max": _json("maxItems"),
    "min": _json("minimum"),
    "rules": lambda value: validations(*(RULES[name] for name in value.split(","))),
}
"""What each attribute adds to a schema."""
