"""Prepare a control plane for a scenario: nodes, HyperNodes, namespaces, queues and scheduler.

Objects of an earlier scenario are removed first, except those that both have in common, usually the nodes.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Callable, Coroutine, Iterable
from functools import partial
from pathlib import Path
from typing import Any

from trainyard.kube.api_errors import ApiError
from trainyard.kube.client import Client
from trainyard.kube.kinds import JOBS, NAMESPACES, NODES, PODS, PRIORITY_CLASSES, SERVICE_ACCOUNTS
from trainyard.kube.resource import Resource
from trainyard.kube.training_kinds import HYPER_NODES, POD_GROUPS, QUEUES, VOLCANO_JOBS
from trainyard.local.cluster import simulated_nodes as nodes
from trainyard.local.cluster.provider import ClusterStatus
from trainyard.local.simulate.scenario_jobs import DEFAULT_NAMESPACE
from trainyard.local.simulate.volcano_install import (
    MANAGER,
    PATIENCE,
    PAUSE,
    PLATFORM_TAINT,
    configure,
    queue_open,
    wait_until,
)
from trainyard.scheduling.queues.builtin_queues import RESERVED, root_preparation
from trainyard.scheduling.queues.queue import DEFAULT, ROOT
from trainyard.scheduling.scheduler import stack_configuration
from trainyard.scheduling.topology.fabric_compiler import compile_fabric
from trainyard.settings.stack import StackSettings
from trainyard.stack_checks import stack_queues

_LABEL = "trainyard.dev/simulation"
_OWN = {_LABEL: "true"}
_AMOUNTS = dict.fromkeys(("deserved", "guarantee", "capability"))
_DEFAULTS: dict[str, dict[str, Any]] = {
    ROOT: {**_AMOUNTS},
    DEFAULT: {**_AMOUNTS, "weight": 1, "reclaimable": True, "priority": None, "affinity": None, "type": None},
}
"""Specs to which Volcano's own queues are reset."""
_DELETE_NOW = {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0}


async def prepare(
    client: Client,
    kubeconfig: Path,
    settings: StackSettings,
    status: Callable[[], ClusterStatus],
    *,
    configuration: str | None = None,
) -> None:
    """Set up the platform of a scenario.

    Parameters
    ----------
    client, kubeconfig
        Administrator's client and kubeconfig.
    settings
        Fabric, queues, tenants, scheduler and priority classes.
    status
        Returns the status of the cluster's processes.
    configuration
        Scheduler configuration instead of that of the settings.
    """
    await clear(client)
    await nodes.sync(kubeconfig, settings.fabric)
    # The node of the platform's own pods is not part of the fleet: jobs without accelerators would run there.
    await client.merge_patch(NODES, nodes.PLATFORM_NODE, {"spec": {"taints": [dict(PLATFORM_TAINT)]}})
    for node in await client.list(NODES):
        if node["spec"].get("unschedulable"):
            await client.merge_patch(NODES, node["metadata"]["name"], {"spec": {"unschedulable": None}})
    count = settings.fabric.node_count + 1
    # Listing many nodes slows down the API server, so large fleets are polled less often.
    patience, pause = PATIENCE + count / 10, PAUSE + count / 1000
    await wait_until(f"{count} nodes are ready", lambda: _ready(client, count), patience=patience, pause=pause)
    fabric = compile_fabric(settings.fabric)
    await _hyper_nodes(client, fabric.hyper_nodes)
    for tenant in (DEFAULT_NAMESPACE, *settings.active_tenants):
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": tenant, "labels": _OWN}}
        await client.apply(NAMESPACES, body, field_manager=MANAGER)
        await wait_until(f"namespace {tenant} is ready", partial(_account, client, tenant))
    for name, each in settings.priority_classes.items():
        await client.create(PRIORITY_CLASSES, _priority_class(name, each.value, preempts=each.preempts))
    text = configuration or stack_configuration.configuration(settings)
    mark = hashlib.sha256(json.dumps(fabric.hyper_nodes, sort_keys=True).encode()).hexdigest()[:16]
    await configure(client, text, mark, status)
    queues = stack_queues(settings)
    for body in queues.own:
        await retried(partial(client.create, QUEUES, body))
    for body in queues.patches:
        await _patch(client, body)
    for name in settings.queues:
        await wait_until(f"queue {name} is open", partial(queue_open, client, name))


async def clear(client: Client) -> None:
    """Remove the jobs, queues and priority classes of an earlier scenario."""
    for namespace in await client.list(NAMESPACES, label_selector=_LABEL):
        name = namespace["metadata"]["name"]
        for resource in (JOBS, VOLCANO_JOBS, PODS, POD_GROUPS):
            found = [each["metadata"]["name"] for each in await client.list(resource, namespace=name)]
            if resource is PODS:
                await delete_pods(client, name, found)
            else:
                await asyncio.gather(*(client.delete(resource, each, namespace=name) for each in found))
    await wait_until("the pods of an earlier scenario are gone", lambda: _nothing(client, PODS))
    left = {each["metadata"]["name"]: each["spec"].get("parent") for each in await client.list(QUEUES)}
    left = {name: parent for name, parent in left.items() if name not in RESERVED}
    while left:
        leaves = [name for name in left if name not in left.values()]
        for name in leaves:
            await retried(partial(client.delete, QUEUES, name))
            del left[name]
    await wait_until("the queues of an earlier scenario are gone", lambda: _only_builtin_queues(client))
    for each in await client.list(PRIORITY_CLASSES, label_selector=_LABEL):
        await client.delete(PRIORITY_CLASSES, each["metadata"]["name"])
    for name, spec in _DEFAULTS.items():
        if await client.find(QUEUES, name):
            await retried(partial(client.merge_patch, QUEUES, name, {"spec": spec}))


async def _patch(client: Client, body: dict[str, Any]) -> None:
    """Set fields of a built-in queue; a capability of root requires lower values of the scheduler's fields."""
    name, spec = body["metadata"]["name"], body["spec"]
    if name == ROOT:
        live = await client.get(QUEUES, ROOT)
        spec = {**(root_preparation(live["spec"], spec["capability"]) or {}), **spec}
    await retried(partial(client.merge_patch, QUEUES, name, {"spec": spec}))


async def delete_pods(client: Client, namespace: str, names: Iterable[str]) -> None:
    """Delete pods concurrently without grace period; the API server deletes a collection one by one."""

    async def delete(name: str) -> None:
        try:
            await client.request("DELETE", PODS.path(namespace=namespace, name=name), resource=PODS, body=_DELETE_NOW)
        except ApiError as error:
            if not error.not_found:
                raise

    await asyncio.gather(*(delete(name) for name in names))


async def _hyper_nodes(client: Client, wanted: list[dict[str, Any]]) -> None:
    live = {each["metadata"]["name"]: each["spec"] for each in await client.list(HYPER_NODES)}
    if live == {each["metadata"]["name"]: each["spec"] for each in wanted}:
        return
    # Deleting a member before its parent, or editing HyperNodes, can stop the scheduler: delete all, from the top.
    for name in sorted(live, key=lambda name: -live[name]["tier"]):
        await client.delete(HYPER_NODES, name)
    for body in wanted:
        await retried(partial(client.create, HYPER_NODES, body))


async def retried(attempt: Callable[[], Coroutine[Any, Any, Any]]) -> None:
    """Retry a write that a webhook may reject while its cache lags."""
    for _ in range(100):
        try:
            await attempt()
            return
        except ApiError as error:
            if error.status not in (400, 403, 409, 500) or error.conflict:
                raise
            await asyncio.sleep(0.05)
    await attempt()


async def _ready(client: Client, count: int) -> bool:
    found = await client.list(NODES, limit=0)
    return len(found) == count and all(_is_ready(each) for each in found)


def _is_ready(node: dict[str, Any]) -> bool:
    conditions: Iterable[dict[str, Any]] = (node.get("status") or {}).get("conditions") or ()
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


async def _account(client: Client, namespace: str) -> bool:
    return await client.find(SERVICE_ACCOUNTS, "default", namespace=namespace) is not None


async def _nothing(client: Client, resource: Resource) -> bool:
    for namespace in await client.list(NAMESPACES, label_selector=_LABEL):
        if (await client.page(resource, namespace=namespace["metadata"]["name"], limit=1)).items:
            return False
    return True


async def _only_builtin_queues(client: Client) -> bool:
    return all(each["metadata"]["name"] in RESERVED for each in await client.list(QUEUES))


def _priority_class(name: str, value: int, *, preempts: bool) -> dict[str, Any]:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name, "labels": _OWN},
        "value": value,
        "preemptionPolicy": "PreemptLowerPriority" if preempts else "Never",
    }
