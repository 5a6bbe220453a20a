"""Live queues and their gangs."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus

from trainyard.api.constants import PLATFORM_NAME
from trainyard.cluster_state.observed import Kind, Observed
from trainyard.cluster_state.shares import Shares
from trainyard.kube.api_errors import ApiError
from trainyard.kube.client import Client
from trainyard.kube.kinds import NODES, PODS, PRIORITY_CLASSES
from trainyard.kube.resource import Object, Resource
from trainyard.kube.training_kinds import PLATFORMS, POD_GROUPS, QUEUES

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
    """

    queues: tuple[Object, ...] = ()
    pod_groups: tuple[Object, ...] = ()
    retired: frozenset[str] = frozenset()
    closed: frozenset[str] = frozenset()
    has_platform: bool = False


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


async def read_shares(client: Client) -> Shares:
    """Read the queues of a cluster, their gangs with their pods, the PriorityClasses and the nodes.

    Pods are unknown if the user may not list them.

    Raises
    ------
    TrainyardError
        If the queues form no tree.
    """
    found = [(each, await _list(client, each)) for each in (QUEUES, POD_GROUPS, NODES, PRIORITY_CLASSES)]
    unread = set[str]()
    try:
        found.append((PODS, tuple(await client.list(PODS, field_selector=_UNFINISHED))))
    except ApiError as error:
        if error.status != HTTPStatus.FORBIDDEN:
            raise
        unread.add(Kind.POD)
    # The API server omits the kind of list items.
    objects = [{**body, "apiVersion": of.api_version, "kind": of.kind} for of, bodies in found for body in bodies]
    return Shares.required(Observed(datetime.now(UTC), tuple(objects), frozenset(unread)))


async def _list(client: Client, resource: Resource) -> tuple[Object, ...]:
    try:
        return tuple(await client.list(resource))
    except ApiError as error:
        if error.not_found:
            return ()
        raise
