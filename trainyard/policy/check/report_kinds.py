"""CustomResourceDefinitions of PolicyReport and ClusterPolicyReport, for clusters without them."""

from __future__ import annotations

from typing import Any, Final

API_VERSION: Final = "wgpolicyk8s.io/v1alpha2"
GROUP, VERSION = API_VERSION.split("/")
NAMESPACED: Final = ("PolicyReport", "policyreports", "polr")
CLUSTERED: Final = ("ClusterPolicyReport", "clusterpolicyreports", "cpolr")
"""Kind, plural and short name."""

_OUTCOMES: Final = ("pass", "fail", "warn", "error", "skip")
_SEVERITIES: Final = ("critical", "high", "medium", "low", "info")
_TEXT: Final = {"type": "string"}
_NUMBER: Final = {"type": "integer"}
_OPEN: Final = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def report_definitions() -> list[dict[str, Any]]:
    """Return the CustomResourceDefinitions of the working group's API; fields of other writers are preserved."""
    return [_definition(*NAMESPACED, "Namespaced"), _definition(*CLUSTERED, "Cluster")]


def _definition(kind: str, plural: str, short: str, scope: str) -> dict[str, Any]:
    names = {"kind": kind, "listKind": f"{kind}List", "plural": plural, "singular": kind.lower(), "shortNames": [short]}
    columns = [
        {"name": outcome.capitalize(), "type": "integer", "jsonPath": f".summary.{outcome}"} for outcome in _OUTCOMES
    ]
    version = {
        "name": VERSION,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": _schema()},
        "additionalPrinterColumns": columns,
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {"group": GROUP, "names": names, "scope": scope, "versions": [version]},
    }


def _schema() -> dict[str, Any]:
    counts = {"type": "object", "properties": {outcome: dict(_NUMBER) for outcome in _OUTCOMES}}
    timestamp = {
        "type": "object",
        "required": ["nanos", "seconds"],
        "properties": {"nanos": {**_NUMBER, "format": "int32"}, "seconds": {**_NUMBER, "format": "int64"}},
    }
    texts = {name: dict(_TEXT) for name in ("category", "message", "policy", "rule", "source")}
    result = {
        "type": "object",
        "required": ["policy"],
        "properties": {
            **texts,
            "properties": {"type": "object", "additionalProperties": dict(_TEXT)},
            "resourceSelector": dict(_OPEN),
            "resources": {"type": "array", "items": {**_OPEN, "x-kubernetes-map-type": "atomic"}},
            "result": {**_TEXT, "enum": list(_OUTCOMES)},
            "scored": {"type": "boolean"},
            "severity": {**_TEXT, "enum": list(_SEVERITIES)},
            "timestamp": timestamp,
        },
    }
    return {
        "type": "object",
        "properties": {
            "apiVersion": dict(_TEXT),
            "kind": dict(_TEXT),
            "metadata": {"type": "object"},
            "results": {"type": "array", "items": result},
            "scope": dict(_OPEN),
            "scopeSelector": dict(_OPEN),
            "summary": counts,
        },
    }
