"""Nodes of a live cluster, with their topology labels."""

from __future__ import annotations

from pathlib import Path

from trainyard.kube.client import Client
from trainyard.kube.kinds import NODES
from trainyard.scheduling.topology.hypernode_manifests import Node, read_manifests


async def read_nodes(kubeconfig: Path, context: str | None = None) -> tuple[Node, ...]:
    """Read the nodes of a cluster."""
    async with Client.from_kubeconfig(kubeconfig, context, user_agent="trainyard-topology") as client:
        items = await client.list(NODES)
    body = {"apiVersion": "v1", "kind": "NodeList", "items": items}
    return read_manifests([("", body)]).nodes or ()
