"""Hook for queue changes: reject those that would hurt jobs, order the rest so that Volcano accepts each.

Pulumi gives every queue its new parent and amounts, parents first. What has to shrink or move before is done by a hook,
once, before the first queue is touched. The webhook compares with a cache that lags behind; so each queue is asked for
in a dry run until the webhook knows of its parent.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from components.hooks.base import AGAIN, LAG, Preparation, applied, with_spec
from components.objects import FIELD_MANAGER
from components.threads import run_in_thread
from trainyard.cluster import ClusterAccess
from trainyard.controller.resources import QUEUES
from trainyard.kube import ApiError, Client, Object
from trainyard.live.queues import LiveQueues, read_queues
from trainyard.problem import TrainyardError
from trainyard.queues import ROOT
from trainyard.queues.builtin_queues import made_room
from trainyard.queues.changes import change_problems
from trainyard.queues.transition import transition

__all__ = ["Convergence", "PatchedQueue", "live_queues", "refuse_changes"]

ROOM_MANAGER = f"{FIELD_MANAGER}-room"
"""Another manager than that of the patch, which gives back what it owns: the scheduler's fields stay lowered then."""


def live_queues(access: ClusterAccess) -> LiveQueues:
    """Return what is in the queues of a cluster."""

    async def read() -> LiveQueues:
        async with Client.from_kubeconfig(access.kubeconfig, access.context) as client:
            return await read_queues(client)

    return run_in_thread(read)


def refuse_changes(live: LiveQueues, manifests: Sequence[Mapping[str, Any]], owned: Collection[str]) -> None:
    """Refuse a change of the queue tree that would hurt jobs.

    Raises
    ------
    TrainyardError
        With each queue, the jobs in it, and what to do first.
    """
    wanted = {manifest["metadata"]["name"]: manifest["spec"] for manifest in manifests}
    problems = change_problems(live.queues, wanted, owned=owned, retired=live.retired, pod_groups=live.pod_groups)
    if problems:
        raise TrainyardError("The queues cannot be changed like this while jobs are in them", problems=problems)


class Convergence(Preparation):
    """Brings a live queue tree to where Pulumi can change it.

    Parameters
    ----------
    access
        The cluster.
    manifests
        The queues that there will be.
    owned
        Names of the live queues that this stack made; those of others are not touched.
    """

    def __init__(self, access: ClusterAccess, manifests: Sequence[Mapping[str, Any]], owned: Collection[str]) -> None:
        super().__init__(access, "queue-convergence")
        self._owned = owned
        self._wanted = {manifest["metadata"]["name"]: manifest for manifest in manifests}

    async def prepare(self, client: Client) -> None:
        """Lower and move what is in the way of the wanted tree."""
        ours = {*self._owned, *self._wanted}
        live = {queue["metadata"]["name"]: queue for queue in await client.list(QUEUES)}
        specs = {name: queue.get("spec") or {} for name, queue in live.items() if name in ours}
        wanted = {name: manifest["spec"] for name, manifest in self._wanted.items()}
        for step in transition(specs, wanted):
            await _accepted(client, with_spec(QUEUES, live[step.queue], step.spec))

    async def admitted(self, client: Client, name: str) -> None:
        """Wait until Volcano would accept a queue as it is to be.

        Raises
        ------
        TrainyardError
            With the words of Volcano, if it goes on refusing.
        """
        await _accepted(client, self._wanted[name], dry_run=True)


class PatchedQueue(Preparation):
    """Lets ``root`` and ``default`` be patched: waits until Volcano made them, and makes room for a capability of root.

    Parameters
    ----------
    access
        The cluster.
    manifest
        What is to be set.
    """

    def __init__(self, access: ClusterAccess, manifest: Mapping[str, Any]) -> None:
        self._name: str = manifest["metadata"]["name"]
        super().__init__(access, f"queue-patch-{self._name}")
        self._spec: Mapping[str, Any] = manifest["spec"]

    async def prepare(self, client: Client) -> None:
        """Wait for the queue, and lower what is in the way.

        Raises
        ------
        TrainyardError
            Volcano does not make it.
        """
        live = await self._found(client)
        room = made_room(live.get("spec") or {}, self._spec["capability"]) if self._name == ROOT else None
        if room is not None:
            await client.merge_patch(QUEUES, self._name, {"spec": room}, field_manager=ROOM_MANAGER)

    async def _found(self, client: Client) -> Object:
        give_up = time.monotonic() + LAG
        while (live := await client.find(QUEUES, self._name)) is None:
            if time.monotonic() > give_up:
                raise TrainyardError(
                    f"There is no queue {self._name!r}, which Volcano's scheduler makes when it starts",
                    fix="look at the scheduler's log, and run it again",
                )
            await asyncio.sleep(AGAIN)
        return live


async def _accepted(client: Client, body: Mapping[str, Any], *, dry_run: bool = False) -> None:
    try:
        await applied(client, QUEUES, body, dry_run=dry_run)
    except ApiError as error:
        raise TrainyardError(
            f"queue {body['metadata']['name']!r} is refused: {error.message}",
            fix="correct trainyard:queues, or the changed field of the live queue, and run it again",
        ) from error
