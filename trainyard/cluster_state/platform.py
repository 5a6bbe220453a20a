"""The live platform: its queues and its fabric."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from trainyard.kube.client import Client
from trainyard.kube.kinds import NODES
from trainyard.kube.resource import Object
from trainyard.kube.training_kinds import HYPER_NODES, QUEUES
from trainyard.scheduling.topology.hypernode_manifests import read_manifests
from trainyard.scheduling.topology.membership import NodeIndex


@dataclass(frozen=True)
class LivePlatform:
    """The live queues and HyperNodes; nodes that a HyperNode chooses by label are listed by name."""

    queues: tuple[Object, ...]
    hyper_nodes: tuple[Object, ...]


async def read_platform(client: Client) -> LivePlatform:
    """Read the queues and HyperNodes of a cluster."""
    hyper_nodes = await client.list(HYPER_NODES)
    if any("labelMatch" in member["selector"] for body in hyper_nodes for member in body["spec"]["members"]):
        nodes = {"apiVersion": "v1", "kind": "NodeList", "items": await client.list(NODES)}
        index = NodeIndex(read_manifests([("", nodes)]).nodes or ())
        hyper_nodes = [_listed(body, index) for body in hyper_nodes]
    return LivePlatform(tuple(await client.list(QUEUES)), tuple(hyper_nodes))


def _listed(body: Object, index: NodeIndex) -> Object:
    members: list[dict[str, Any]] = []
    for member in body["spec"]["members"]:
        names = index.labels(member["selector"]["labelMatch"]) if "labelMatch" in member["selector"] else None
        named = [{"type": "Node", "selector": {"exactMatch": {"name": name}}} for name in names or ()]
        members += [member] if names is None else named
    return {**body, "spec": {**body["spec"], "members": members}}
