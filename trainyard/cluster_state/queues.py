"""Live queues, their gangs, and the nodes that they share."""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus

from trainyard.api.constants import PLATFORM_NAME
from trainyard.cluster_state.cluster_index import ClusterIndex
from trainyard.cluster_state.observed import Kind, Observed
from trainyard.kube.api_errors import ApiError
from trainyard.kube.client import Client
from trainyard.kube.kinds import NODES, PODS, PRIORITY_CLASSES
from trainyard.kube.resource import Object, Resource
from trainyard.kube.training_kinds import PLATFORMS, POD_GROUPS, QUEUES
from trainyard.scheduling.queues.amounts import Amounts, units
from trainyard.scheduling.queues.queued_gangs import QueuedJob, read_jobs
from trainyard.scheduling.queues.snapshot import Snapshot, snapshot_of_cluster

_UNFINISHED = "status.phase!=Succeeded,status.phase!=Failed"


@dataclass(frozen=True)
class LiveQueues:
    """The queues of a cluster and their content.

    Parameters
    ----------
    queues
        Every Queue.
    pod_groups
        Every PodGroup, in any phase, if requested.
    retired, closed
        Names of the queues that the Platform retires, and of those that it closes, retired ones included.
    has_platform
        Whether the Platform exists, by which the controller closes queues.
    nodes
        Every node, if requested.
    priority_classes
        Every PriorityClass, if requested.
    pods
        Every unfinished pod, if requested; None if the user may not list them.
    """

    queues: tuple[Object, ...] = ()
    pod_groups: tuple[Object, ...] = ()
    retired: frozenset[str] = frozenset()
    closed: frozenset[str] = frozenset()
    has_platform: bool = False
    nodes: tuple[Object, ...] = ()
    priority_classes: tuple[Object, ...] = ()
    pods: tuple[Object, ...] | None = None

    @property
    def snapshot(self) -> Snapshot:
        """The queue tree and its capacity."""
        return snapshot_of_cluster(self.queues, self.nodes)

    @property
    def jobs(self) -> list[QueuedJob]:
        """The running and waiting gangs."""
        kinds = ((self.priority_classes, "PriorityClass"), (self.pod_groups, "PodGroup"), (self.pods or (), "Pod"))
        # The API server omits the kind of list items.
        bodies = ({**body, "kind": kind} for found, kind in kinds for body in found)
        return read_jobs(bodies, pods=self.pods is not None)

    @property
    def allocated(self) -> dict[str, Amounts]:
        """What the scheduler counts as used, of each queue whose status has it."""
        found = {each["metadata"]["name"]: (each.get("status") or {}).get("allocated") for each in self.queues}
        counted = {name: units(amounts) for name, amounts in found.items() if amounts is not None}
        return {name: {each: amount for each, amount in used.items() if amount} for name, used in counted.items()}

    @property
    def states(self) -> dict[str, str]:
        """State of each queue."""
        return {each["metadata"]["name"]: (each.get("status") or {}).get("state") or "" for each in self.queues}


async def read_queues(client: Client) -> LiveQueues:
    """Read the queues of a cluster, without their gangs; empty without Volcano."""
    queues = await _list(client, QUEUES)
    platform = await client.find(PLATFORMS, PLATFORM_NAME)
    spec = platform["spec"] if platform else {}
    retired = frozenset(spec.get("retiredQueues", ()))
    closed = retired | frozenset(spec.get("closedQueues", ()))
    return LiveQueues(queues, retired=retired, closed=closed, has_platform=platform is not None)


async def read_pod_groups(client: Client) -> tuple[Object, ...]:
    """Read the gangs of all namespaces; empty without Volcano."""
    return await _list(client, POD_GROUPS)


async def read_shares(client: Client) -> LiveQueues:
    """Read the queues of a cluster, their gangs with their pods, the PriorityClasses and the nodes."""
    queues = [await _list(client, resource) for resource in (QUEUES, POD_GROUPS, NODES, PRIORITY_CLASSES)]
    pods = await _pods(client) if queues[1] else ()
    return LiveQueues(queues[0], queues[1], nodes=queues[2], priority_classes=queues[3], pods=pods)


def recorded_shares(observed: Observed) -> LiveQueues:
    """Return the same as `read_shares` from a recorded cluster."""
    index = ClusterIndex(observed)
    queues, groups, nodes, classes = (
        tuple(dict(body) for body in index.of(kind))
        for kind in (Kind.QUEUE, Kind.POD_GROUP, Kind.NODE, Kind.PRIORITY_CLASS)
    )
    pods = tuple(dict(body) for body in index.unfinished_pods) if index.knows(Kind.POD) else None
    return LiveQueues(queues, groups, nodes=nodes, priority_classes=classes, pods=pods)


async def _pods(client: Client) -> tuple[Object, ...] | None:
    try:
        return tuple(await client.list(PODS, field_selector=_UNFINISHED))
    except ApiError as error:
        if error.status == HTTPStatus.FORBIDDEN:
            return None
        raise


async def _list(client: Client, resource: Resource) -> tuple[Object, ...]:
    try:
        return tuple(await client.list(resource))
    except ApiError as error:
        if error.not_found:
            return ()
        raise
