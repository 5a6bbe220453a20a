"""Simulated nodes: those of the fabric, and one without accelerators for the platform's own pods."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from trainyard.kube.api_errors import ApiError
from trainyard.kube.client import Client
from trainyard.kube.kinds import NODES
from trainyard.local.cluster.provider import NodeChanges
from trainyard.scheduling.topology.fabric_compiler import compile_fabric
from trainyard.settings.fabric import FabricSettings

T = TypeVar("T")

PLATFORM_NODE = "platform-0"
MANAGED_LABEL = "trainyard.dev/simulated-node"

_FAKE = {"kwok.x-k8s.io/node": "fake"}
_OWNED_LABELS = "trainyard.dev/node-labels"
"""Annotation with the names of managed labels: those removed from the fabric are deleted, all others are kept."""


def desired_nodes(fabric: FabricSettings) -> dict[str, dict[str, Any]]:
    """Return the Node objects of a fabric by name, including the platform's node."""
    nodes = {node.name: _node(node.name, node.labels, node.capacity) for node in compile_fabric(fabric).nodes}
    platform = _node(PLATFORM_NODE, {"trainyard.dev/platform": "true"}, {"cpu": "64", "memory": "256Gi", "pods": "110"})
    return {**nodes, PLATFORM_NODE: platform}


def _node(name: str, labels: Mapping[str, str], capacity: Mapping[str, str]) -> dict[str, Any]:
    amounts = {"pods": "110", **capacity}
    own = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        MANAGED_LABEL: "true",
        **labels,
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": own, "annotations": {**_FAKE, _OWNED_LABELS: ",".join(sorted(own))}},
        "status": {"capacity": amounts, "allocatable": amounts},
    }


async def sync(kubeconfig: Path, fabric: FabricSettings) -> NodeChanges:
    """Create, patch and delete simulated nodes; nodes are cordoned before deletion, so that no pod is bound to them."""
    desired = desired_nodes(fabric)
    async with Client.from_kubeconfig(kubeconfig, user_agent="trainyard-cluster") as client:
        existing = {node["metadata"]["name"]: node for node in await client.list(NODES, label_selector=MANAGED_LABEL)}
        missing = [name for name in desired if name not in existing]
        await _each(missing, lambda name: _create(client, desired[name]))
        present = [name for name in desired if name in existing]
        changed = await _each(present, lambda name: _update(client, existing[name], desired[name]))
        updated = [name for name, change in zip(present, changed, strict=True) if change]
        obsolete = [name for name in existing if name not in desired]
        await _each(obsolete, lambda name: client.merge_patch(NODES, name, {"spec": {"unschedulable": True}}))
        await _each(obsolete, lambda name: client.delete(NODES, name))
    return NodeChanges(tuple(missing), tuple(updated), tuple(obsolete), len(present) - len(updated))


async def _each(names: Sequence[str], work: Callable[[str], Awaitable[T]]) -> list[T]:
    """Return the result for each name; the calls run concurrently, bounded by the client."""
    return list(await asyncio.gather(*(work(name) for name in names)))


async def _create(client: Client, body: dict[str, Any]) -> None:
    try:
        await client.create(NODES, body, field_manager="trainyard-cluster")
    except ApiError as error:
        if not error.conflict:
            raise
        await _update(client, await client.get(NODES, body["metadata"]["name"]), body)


async def _update(client: Client, existing: dict[str, Any], body: dict[str, Any]) -> bool:
    name, metadata = body["metadata"]["name"], existing["metadata"]
    labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
    patch: dict[str, Any] = {}
    changed = {key: value for key, value in body["metadata"]["labels"].items() if labels.get(key) != value}
    owned = filter(None, annotations.get(_OWNED_LABELS, "").split(","))
    changed |= {key: None for key in owned if key in labels and key not in body["metadata"]["labels"]}
    if changed:
        patch.setdefault("metadata", {})["labels"] = changed
    marks = {key: value for key, value in body["metadata"]["annotations"].items() if annotations.get(key) != value}
    if marks:
        patch.setdefault("metadata", {})["annotations"] = marks
    if patch:
        await client.merge_patch(NODES, name, patch)
    status = {
        field: {**wanted, **{key: None for key in existing.get("status", {}).get(field) or {} if key not in wanted}}
        for field, wanted in body["status"].items()
        if (existing.get("status", {}).get(field) or {}) != wanted
    }
    if status:
        await client.merge_patch(NODES, name, {"status": status}, subresource="status")
    return bool(patch or status)
