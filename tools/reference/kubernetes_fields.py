"""Record the fields of Kubernetes' own kinds, from the OpenAPI of the running API server on standard input.

``kubectl get --raw /openapi/v2 | python -m tools.reference.kubernetes_fields`` writes the file.
``kubernetes_fields.json`` lists, for each type that a tenant's objects consist of, its fields and the types of these:
another entry, or empty for a value without fields. ``[]`` marks a list and ``{}`` a map. A test compares the file with
the pinned API server.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

from trainyard.settings.versions import KUBERNETES_VERSION

FILE: Final = Path(__file__).with_suffix(".json")
"""The recorded fields."""

ROOTS: Final = (
    "io.k8s.api.batch.v1.CronJob",
    "io.k8s.api.batch.v1.Job",
    "io.k8s.api.core.v1.PersistentVolumeClaim",
    "io.k8s.api.core.v1.Pod",
    "io.k8s.api.core.v1.Service",
    "io.k8s.api.policy.v1.PodDisruptionBudget",
    "io.k8s.api.resource.v1.ResourceClaimTemplate",
)
"""Kinds whose types are recorded."""

Types = dict[str, dict[str, str]]


@cache
def recorded_fields() -> Types:
    """Return the recorded types by name; must not be modified."""
    types: Types = json.loads(FILE.read_text())["types"]
    return types


def recorded_from(specification: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content of the file for an OpenAPI v2 specification of an API server.

    Raises
    ------
    KeyError
        A kind does not exist.
    ValueError
        Two types have the same name.
    """
    definitions, types, origins = specification["definitions"], Types(), dict[str, str]()
    waiting = list(ROOTS)
    while waiting:
        origin = waiting.pop()
        name = origin.rpartition(".")[2]
        if origins.setdefault(name, origin) != origin:
            raise ValueError(f"two types are named {name}: {origins[name]} and {origin}")
        if name in types:
            continue
        types[name] = {}
        for field, schema in sorted(definitions[origin].get("properties", {}).items()):
            target, mark = _target(schema)
            fields = definitions[target].get("properties") if target else None
            types[name][field] = (target.rpartition(".")[2] if fields else "") + mark
            waiting += [target] if fields else []
    return {"version": f"v{KUBERNETES_VERSION}", "types": dict(sorted(types.items()))}


def _target(schema: Mapping[str, Any]) -> tuple[str, str]:
    for key, mark in (("items", "[]"), ("additionalProperties", "{}")):
        if isinstance(schema.get(key), Mapping):
            target, inner = _target(schema[key])
            return target, mark + inner
    return str(schema.get("$ref", "")).removeprefix("#/definitions/"), ""


if __name__ == "__main__":
    FILE.write_text(json.dumps(recorded_from(json.load(sys.stdin)), indent=1) + "\n")
