"""Node objects of kubelets: wait until they are ready, and give them the labels and devices of the fabric."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Container, Iterable, Mapping
from pathlib import Path
from typing import Any

from trainyard.errors import TrainyardError
from trainyard.kube.api_errors import ApiError, TransportError
from trainyard.kube.client import Client
from trainyard.kube.kinds import DEPLOYMENTS, NODES
from trainyard.local.cluster.node.node_objects import SYSTEM, Objects
from trainyard.local.cluster.provider import NodeChanges
from trainyard.scheduling.topology.fabric_compiler import FabricNode

_PATIENCE = 90.0
_POLL = 0.25
_OF_MACHINE = ("cpu", "memory", "pods", "ephemeral-storage")
"""Resources that the kubelet reports itself."""
_OWNED = "trainyard.dev/node-labels"


def ready(node: Mapping[str, Any]) -> bool:
    """Return whether a Node is ready."""
    conditions = node.get("status", {}).get("conditions") or ()
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


async def await_nodes(kubeconfig: Path, names: set[str], report: Callable[[str], None]) -> None:
    """Wait until kubelets have registered and their nodes are ready.

    Raises
    ------
    TrainyardError
        A node does not become ready.
    """
    deadline = time.monotonic() + _PATIENCE
    async with Client.from_kubeconfig(kubeconfig, user_agent="trainyard-cluster") as client:
        while True:
            waiting = names
            why = ""
            try:
                found = {node["metadata"]["name"]: node for node in await client.list(NODES)}
                waiting = {name for name in names if name not in found or not ready(found[name])}
            except (ApiError, TransportError) as error:
                why = f" ({error})"
            if not waiting:
                return
            if time.monotonic() > deadline:
                first = min(waiting)
                raise TrainyardError(
                    f"Node {first} does not become ready{why}",
                    fix=f"read `trainyard cluster logs node-{first}` and the log folder it names",
                )
            report(f"waiting for {', '.join(sorted(waiting))}")
            await asyncio.sleep(_POLL)


async def label_nodes(kubeconfig: Path, nodes: tuple[FabricNode, ...]) -> NodeChanges:
    """Give nodes the labels and devices of the fabric; labels and nodes that it no longer has are removed."""
    updated = []
    wanted = {node.name: node for node in nodes}
    async with Client.from_kubeconfig(kubeconfig, user_agent="trainyard-cluster") as client:
        existing = {node["metadata"]["name"]: node for node in await client.list(NODES)}
        for name, node in wanted.items():
            if name in existing and await _update(client, existing[name], node):
                updated.append(name)
        gone = obsolete(existing.values(), wanted)
        for name in gone:
            await client.delete(NODES, name)
    return NodeChanges((), tuple(updated), gone, len(wanted) - len(updated))


def obsolete(existing: Iterable[Mapping[str, Any]], wanted: Container[str]) -> tuple[str, ...]:
    """Return the names of nodes that the fabric had and no longer has; their kubelets were stopped."""
    owned = [each["metadata"] for each in existing if _OWNED in (each["metadata"].get("annotations") or {})]
    return tuple(sorted(each["name"] for each in owned if each["name"] not in wanted))


async def _update(client: Client, existing: Mapping[str, Any], node: FabricNode) -> bool:
    metadata = existing["metadata"]
    labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
    own = {key: value for key, value in node.labels.items() if key != "kubernetes.io/hostname"}
    changed: dict[str, str | None] = {key: value for key, value in own.items() if labels.get(key) != value}
    former = filter(None, annotations.get(_OWNED, "").split(","))
    changed |= {key: None for key in former if key in labels and key not in own}
    mark = ",".join(sorted(own))
    if changed or annotations.get(_OWNED, "") != mark:
        patch = {"metadata": {"labels": changed, "annotations": {_OWNED: mark}}}
        await client.merge_patch(NODES, node.name, patch)
    devices = {name: amount for name, amount in node.capacity.items() if name not in _OF_MACHINE}
    status = existing.get("status", {})
    if any((status.get("capacity") or {}).get(name) != amount for name, amount in devices.items()):
        # A kubelet keeps amounts of devices that none of its plug-ins offers.
        await client.merge_patch(NODES, node.name, {"status": {"capacity": devices}}, subresource="status")
        return True
    return bool(changed)


async def await_system(kubeconfig: Path, objects: Objects, report: Callable[[str], None]) -> None:
    """Apply the system's objects and wait until its Deployments are available.

    Raises
    ------
    TrainyardError
        One does not become available.
    """
    deadline = time.monotonic() + _PATIENCE
    async with Client.from_kubeconfig(kubeconfig, user_agent="trainyard-cluster") as client:
        for resource, body in objects:
            await client.apply(resource, body, field_manager="trainyard-cluster")
        for name in (body["metadata"]["name"] for resource, body in objects if resource == DEPLOYMENTS):
            while not available(await client.get(DEPLOYMENTS, name, namespace=SYSTEM)):
                if time.monotonic() > deadline:
                    raise TrainyardError(
                        f"{name} does not become available",
                        fix=f"see `kubectl describe deployments,pods --namespace {SYSTEM}`",
                    )
                report(f"waiting for {name}")
                await asyncio.sleep(_POLL)


def available(deployment: Mapping[str, Any]) -> bool:
    """Return whether all replicas of a Deployment's present template are available."""
    status, wanted = deployment.get("status", {}), deployment["spec"]["replicas"]
    return bool(
        status.get("observedGeneration") == deployment["metadata"]["generation"]
        and min(status.get("availableReplicas", 0), status.get("updatedReplicas", 0)) >= wanted
    )
