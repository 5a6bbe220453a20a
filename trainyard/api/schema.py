"""Structural schemas of the CRDs, from the JSON schemas of the Pydantic models."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any, Protocol

from trainyard.api.kubernetes_model import Body, KubernetesModel
from trainyard.api.markers import EMBED

_BOUNDS = {"ge": "minimum", "le": "maximum"}
_DROPPED = frozenset({"title", "const", "$defs"})
_SHAPE = frozenset({"type", "items", "properties", "additionalProperties", "required"})
_INT_OR_STRING = "x-kubernetes-int-or-string"
_OPAQUE = "x-trainyard-opaque"
_RULES = "x-kubernetes-validations"
_POD = ("replicatedJobs", "[]", "template", "spec", "template", "spec")


class Parts(Protocol):
    """Source of embedded schemas."""

    def part(self, name: str) -> Body:
        """Return a copy of one part, see :meth:`JobSetParts.part`."""


class JobSetParts:
    """Schemas embedded from JobSet's CRD.

    Parameters
    ----------
    crd
        JobSet's CustomResourceDefinition.
    descriptions
        Whether to keep JobSet's descriptions.
    """

    def __init__(self, crd: Mapping[str, Any], *, descriptions: bool = True) -> None:
        self._descriptions = descriptions
        version = next(entry for entry in crd["spec"]["versions"] if entry["storage"])
        self._spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]

    def part(self, name: str) -> Body:
        """Return a copy of one part.

        Parameters
        ----------
        name
            ``spec`` for the JobSet specification, ``pod.<field>`` or ``container.<field>`` for a field of its pods.

        Raises
        ------
        KeyError
            If JobSet's CRD has no such part.
        """
        scope, _, field = name.partition(".")
        steps = {"spec": (), "pod": (*_POD, field), "container": (*_POD, "containers", "[]", field)}[scope]
        schema = self._spec
        for step in steps:
            schema = schema["items"] if step == "[]" else schema["properties"][step]
        return deepcopy(schema) if self._descriptions else without_descriptions(schema)


def structural_schema(model: type[KubernetesModel], parts: Parts) -> Body:
    """Return the structural schema of a model with descriptions."""
    schema = model.model_json_schema(by_alias=True)
    converted: Body = _unshared(_Converter(schema.get("$defs", {}), parts).convert(schema))
    return converted


def without_descriptions(schema: Body) -> Body:
    """Return the schema without descriptions; properties named description are kept."""
    result: Body = {}
    for key, value in schema.items():
        if key == "description":
            continue
        if key == "properties":
            result[key] = {name: without_descriptions(inner) for name, inner in value.items()}
        elif key in ("items", "additionalProperties", "not") and isinstance(value, dict):
            result[key] = without_descriptions(value)
        elif key in ("anyOf", "allOf", "oneOf"):
            result[key] = [without_descriptions(inner) for inner in value]
        else:
            result[key] = value
    return result


def _unshared(value: Any) -> Any:
    """Return a deep copy without shared parts, so that YAML has no anchors."""
    if isinstance(value, dict):
        return {key: _unshared(inner) for key, inner in value.items()}
    return [_unshared(inner) for inner in value] if isinstance(value, list) else value


class _Converter:
    def __init__(self, definitions: Mapping[str, Body], parts: Parts) -> None:
        self._definitions = definitions
        self._parts = parts

    def convert(self, node: Body) -> Body:
        """Return one schema with references, optional types and placeholders resolved."""
        flat = self._flatten(node)
        if flat.get(_OPAQUE):
            return {"type": "object"}
        if "const" in flat:
            return {"type": "string"}
        part = flat.pop(EMBED, None)
        if part:
            return self._embed(part, flat)
        result: Body = {_BOUNDS.get(key, key): value for key, value in flat.items() if key not in _DROPPED}
        if result.get("default", ...) is None:
            del result["default"]
        if "properties" in result:
            result["properties"] = {name: self.convert(inner) for name, inner in result["properties"].items()}
            result.pop("additionalProperties", None)
            if not result["properties"]:
                del result["properties"]
        elif result.get("additionalProperties") is True:
            del result["additionalProperties"]
        elif isinstance(result.get("additionalProperties"), dict):
            result["additionalProperties"] = self.convert(result["additionalProperties"])
        if "items" in result:
            result["items"] = self.convert(result["items"])
        return result

    def _flatten(self, node: Body) -> Body:
        flat = dict(node)
        while "$ref" in flat or "anyOf" in flat:
            if flat.get(_INT_OR_STRING):
                return {**flat, "anyOf": [{"type": "integer"}, {"type": "string"}]}
            if "$ref" in flat:
                inner = self._definitions[flat.pop("$ref").removeprefix("#/$defs/")]
            else:
                inner = next(branch for branch in flat.pop("anyOf") if branch.get("type") != "null")
            rules = [*inner.get(_RULES, ()), *flat.get(_RULES, ())]
            flat = {**inner, **flat, **({_RULES: rules} if rules else {})}
        return flat

    def _embed(self, part: str, overlay: Body) -> Body:
        schema = self._parts.part(part)
        rules = [*schema.get(_RULES, ()), *overlay.pop(_RULES, ())]
        kept = {_BOUNDS.get(key, key): value for key, value in overlay.items() if key not in _DROPPED | _SHAPE}
        if kept.get("default", ...) is None:
            del kept["default"]
        return {**schema, **kept, **({_RULES: rules} if rules else {})}
