"""Schema annotations of models: Kubernetes list types, and schemas embedded from JobSet's CRD."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from trainyard.api.kubernetes_model import Body
from trainyard.api.shape_rule import IMMUTABLE, ShapeRule, validations

EMBED = "x-trainyard-embed"
"""Placeholder key: the CRD builder replaces the schema with a part of JobSet's CRD."""


def list_map(key: str, *, immutable: bool = False) -> dict[str, Any]:
    """Return the extension of a map list with one key."""
    extra: dict[str, Any] = {"x-kubernetes-list-map-keys": [key], "x-kubernetes-list-type": "map"}
    return {**extra, **validations(IMMUTABLE)} if immutable else extra


def atomic() -> dict[str, Any]:
    """Return the extension of an atomic list."""
    return {"x-kubernetes-list-type": "atomic"}


def rules(*items: ShapeRule) -> dict[str, Any]:
    """Return the extension with CEL rules."""
    return validations(*items)


def embedded(part: str, *, immutable: bool = False, **bounds: Any) -> dict[str, Any]:
    """Return the placeholder of a schema from JobSet's CRD.

    Parameters
    ----------
    part
        Name of the part, see :mod:`trainyard.api.crds`.
    immutable
        Whether the field is immutable.
    bounds
        Schema keys that replace those of the part.
    """
    return {EMBED: part, **bounds, **(validations(IMMUTABLE) if immutable else {})}


Name = Annotated[str, Field(min_length=1, max_length=253)]
"""A name of at most 253 characters."""

Image = Annotated[str, Field(max_length=500)]
"""A container image."""

LongTexts = Annotated[
    list[Annotated[str, Field(max_length=1048576)]], Field(max_length=128, json_schema_extra=atomic())
]
"""Command or arguments: at most 128 elements."""

EnvList = Annotated[list[Body], Field(max_length=128, json_schema_extra=embedded("container.env"))]
"""Environment variables, identified by name: at most 128."""
