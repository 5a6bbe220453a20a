"""Serialize a fabric: settings of a stack, HyperNodes, and node labels."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import orjson

from trainyard.manifests.dump import comment, dump, dump_all
from trainyard.scheduling.topology.fabric_compiler import Fabric
from trainyard.settings.fabric import FabricSettings


def settings_text(settings: FabricSettings, notes: Sequence[str] = ()) -> str:
    """Return ``trainyard:fabric`` as YAML for a stack's settings; notes become comments at the top."""
    values = settings.model_dump(by_alias=True, exclude_unset=True, mode="json")
    comments = "".join(map(comment, notes))
    return comments + dump({"config": {"trainyard:fabric": values}}, flow=None)


def hyper_nodes_text(fabric: Fabric, *, json: bool = False) -> str:
    """Return the HyperNodes as YAML documents in order of creation, or as one JSON List."""
    return _written(fabric.hyper_nodes, json)


def nodes_text(fabric: Fabric, *, json: bool = False) -> str:
    """Return the nodes with their labels, for a server-side apply to existing nodes.

    Nodes that are chosen by label are omitted: their names are unknown.
    """
    return _written(
        (
            {"apiVersion": "v1", "kind": "Node", "metadata": {"name": node.name, "labels": dict(node.labels)}}
            for node in fabric.nodes
            if not node.selected
        ),
        json,
    )


def _written(manifests: Iterable[dict[str, Any]], json: bool) -> str:
    if json:
        body = {"apiVersion": "v1", "kind": "List", "items": list(manifests)}
        return orjson.dumps(body, option=orjson.OPT_INDENT_2).decode() + "\n"
    return dump_all(manifests)
