"""Source `settings`: the settings of a stack."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trainyard.errors import TrainyardError
from trainyard.manifests.loader import load
from trainyard.scheduling.topology.sources.base import FabricSource, Options
from trainyard.scheduling.topology.to_settings import ImportedFabric
from trainyard.settings.stack_loader import parse_stack, stack_settings

_KEY = "trainyard:fabric"


def fabric_values(document: object) -> Mapping[str, Any] | None:
    """Return the fabric settings in a document by key; None if it contains no fabric.

    Supported are a whole stack file, its ``config`` section, and the fabric alone.
    """
    if not isinstance(document, Mapping):
        return None
    config = document.get("config")
    values = config if isinstance(config, Mapping) else document
    if _KEY in values or isinstance(config, Mapping):
        own = {str(key): value for key, value in values.items() if str(key).startswith("trainyard:")}
        return {key.removeprefix("trainyard:"): value for key, value in own.items()}
    if {"domains", "tierNames"} & set(values):
        return {"fabric": dict(values)}
    return None


def _read(text: str, options: Options) -> ImportedFabric:
    document = load(text, "It", fix="correct it")
    values = fabric_values(document)
    if values is None:
        raise TrainyardError(
            "It contains no fabric", fix=f"use a stack's settings, or a file with {_KEY}; --from names other sources"
        )
    if "cluster" in values:
        return ImportedFabric(stack_settings(document, source="the file").fabric)
    anywhere = {"provider": "embedded"}
    return ImportedFabric(parse_stack({"cluster": anywhere, **values}, source="the file").fabric)


SOURCE = FabricSource("settings", "a stack's settings, or trainyard:fabric alone", _read)
