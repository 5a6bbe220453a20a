"""Writes that precede the deletion of retired queues: they are closed, and those that the engine keeps are deleted.

Volcano silently deletes the jobs of a queue with it. So the controller closes a retired queue, and its jobs are listed
again once no new ones are accepted. The engine does not delete a queue of which its state says that it is kept.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence

import pulumi

from trainyard.api.constants import PLATFORM_NAME
from trainyard.checks.finding import Finding
from trainyard.cluster_state.queues import LiveQueues, read_pod_groups
from trainyard.errors import TrainyardError
from trainyard.kube.api_errors import ApiError, TransportError
from trainyard.kube.client import Client
from trainyard.kube.resource import Object
from trainyard.kube.training_kinds import PLATFORMS, QUEUES
from trainyard.local.cluster.provider import ClusterAccess
from trainyard.platform.pulumi_sdk.targets import has_targets
from trainyard.scheduling.queues.change_effects import describe_jobs, jobs_by_queue, state_of
from trainyard.scheduling.queues.retirement import QueueRetirement, queue_retirement
from trainyard.settings.tenancy import QueueSettings, QueueState

from ..common.objects import FIELD_MANAGER
from ..common.threads import run_with_client
from .base import LAG_SECONDS, RETRY_SECONDS, with_spec

_CLOSED_WITHIN = 60.0
"""Seconds for a replica of the controller to lead, and for Volcano to close the queues."""


def retired_queues(queues: Mapping[str, QueueSettings]) -> list[str]:
    """Return the names of the queues with ``state: retired``."""
    return [name for name, queue in queues.items() if queue.state is QueueState.RETIRED]


def removed_queues(live: LiveQueues, queues: Mapping[str, QueueSettings], owned: Collection[str]) -> list[str]:
    """Return the names of retired queues that exist, and that the settings no longer contain.

    The Platform lists them while they are deleted: the controller opens queues again that it does not list.
    """
    return sorted(live.retired & set(owned) - set(queues))


def retire_queues(
    live: LiveQueues,
    queues: Mapping[str, QueueSettings],
    owned: Collection[str],
    *,
    terminating: Collection[str] = (),
    unknown: str | None = None,
) -> QueueRetirement:
    """Decide which retired queues are deleted.

    Parameters
    ----------
    terminating
        Namespaces that the same `up` deletes.
    unknown
        Why the cluster was not read, and so no queue is deleted.
    """
    retired = retired_queues(queues)
    if unknown is not None:
        return QueueRetirement(waiting=dict.fromkeys(retired, unknown))
    held = None
    if not live.has_platform:
        held = "Platform 'platform' does not exist, so no controller closes it"
    elif retired and has_targets():
        held = "it would be closed or deleted before the engine runs, which --target and --exclude would not limit"
    return queue_retirement(
        retired,
        {name: queue.parent for name, queue in queues.items()},
        live.queues,
        owned=owned,
        closed=live.closed,
        pod_groups=live.pod_groups,
        terminating=terminating,
        held=held,
    )


def announced_writes(retirement: QueueRetirement) -> Iterator[str]:
    """Yield what `up` writes before the engine deletes the retired queues, for the preview."""
    if names := ", ".join(sorted(retirement.closing)):
        yield f"Platform/{PLATFORM_NAME} is written before the update, so that the controller closes queues {names}"
    for name in retirement.directly:
        yield f"Queue/{name} is deleted before the update: a queue that was taken over is kept by the engine"


def close_retired(access: ClusterAccess, retirement: QueueRetirement, terminating: Collection[str] = ()) -> None:
    """Close the retired queues that are still open, and list their jobs once they accept no new ones.

    Parameters
    ----------
    terminating
        Namespaces that the same `up` deletes; a queue whose last jobs are in them is closed when they are deleted.

    Raises
    ------
    TrainyardError
        A queue is not closed in time, or has got a job; the engine has written nothing then.
    """
    if retirement.closing:
        _connected(access, lambda client: _close(client, retirement.closing, terminating))


def delete_directly(access: ClusterAccess, retirement: QueueRetirement, live: Sequence[Object]) -> None:
    """Delete the retired queues that the engine would keep, each as the object among `live` that was read.

    Raises
    ------
    TrainyardError
        Volcano or the API server rejects the deletion.
    """
    uids = {queue["metadata"]["name"]: queue["metadata"].get("uid") for queue in live}

    async def delete(client: Client) -> None:
        for name in retirement.directly:
            await _delete(client, name, uids.get(name))
            pulumi.log.info(f"Queue/{name} was deleted before the update")

    if retirement.directly:
        _connected(access, delete)


def _connected(access: ClusterAccess, work: Callable[[Client], Awaitable[None]]) -> None:
    try:
        run_with_client(access, work)
    except (ApiError, TransportError) as error:
        raise TrainyardError(
            f"The retired queues cannot be deleted: {error}", fix="correct the cause, then run the command again"
        ) from error


async def _close(client: Client, names: Collection[str], terminating: Collection[str]) -> None:
    platform = await client.get(PLATFORMS, PLATFORM_NAME)
    listed = platform["spec"].get("retiredQueues", ())
    if set(names) - set(listed):
        body = with_spec(PLATFORMS, platform, {**platform["spec"], "retiredQueues": sorted({*listed, *names})})
        await client.apply(PLATFORMS, body, field_manager=FIELD_MANAGER)
        pulumi.log.info(f"Platform/{PLATFORM_NAME} was written before the update: queues {', '.join(sorted(names))}")
    deadline = time.monotonic() + _CLOSED_WITHIN
    while opened := await _accepting(client, names, terminating):
        if time.monotonic() > deadline:
            raise TrainyardError(
                "Retired queues are not closed in time",
                findings=[Finding(f"trainyard:queues.{name}", f"queue {name!r} {why}") for name, why in opened.items()],
                fix="read the log of the controller's leader (`kubectl logs -n kubeflow-system "
                "deployment/kubeflow-trainer-controller-manager`), then run the command again",
            )
        await asyncio.sleep(RETRY_SECONDS)
    jobs = await _jobs(client, terminating)
    if findings := [
        Finding(f"trainyard:queues.{name}", f"queue {name!r} has got jobs while it was closed: {describe_jobs(found)}")
        for name in sorted(names)
        if (found := jobs.get(name))
    ]:
        raise TrainyardError(
            "Retired queues are not empty any more",
            findings=findings,
            fix="run the command again: it leaves these queues closed until the jobs are done",
        )


async def _accepting(client: Client, names: Collection[str], terminating: Collection[str]) -> dict[str, str]:
    """Return the state of each queue that may still get or have jobs, in words."""
    states = {queue["metadata"]["name"]: state_of(queue) for queue in await client.list(QUEUES)}
    found = {name: state for name in sorted(names) if (state := states.get(name, "Closed")) != "Closed"}
    if found and set(found.values()) == {"Closing"} and terminating:
        everywhere = await _jobs(client, ())
        found = {name: state for name, state in found.items() if not everywhere.get(name)}
    return {name: f"is {state.lower() or 'without a state'}" for name, state in found.items()}


async def _jobs(client: Client, terminating: Collection[str]) -> dict[str, list[str]]:
    groups = await read_pod_groups(client)
    return jobs_by_queue([each for each in groups if each["metadata"].get("namespace") not in terminating])


async def _delete(client: Client, name: str, uid: str | None) -> None:
    """Delete a queue, with retries while Volcano's cache still has its child queues."""
    deadline = time.monotonic() + LAG_SECONDS
    while True:
        try:
            await client.delete(QUEUES, name, uid=uid)
            return
        except ApiError as error:
            if time.monotonic() > deadline or "child queues" not in error.message:
                raise
        await asyncio.sleep(RETRY_SECONDS)
