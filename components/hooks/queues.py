"""Hook for queue changes: reject those that would hurt jobs, order the rest so that Volcano accepts each.

Pulumi updates the queues, parents first. Queues that must shrink or move before that are migrated by a hook, once,
before the first queue is written. Volcano's webhook validates against a cache that lags behind, so each queue is sent
as a dry run until the webhook knows its parent.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from trainyard.checks.finding import Finding
from trainyard.cluster_state.queues import LiveQueues, read_pod_groups, read_queues
from trainyard.errors import TrainyardError
from trainyard.kube.api_errors import ApiError
from trainyard.kube.client import Client
from trainyard.kube.training_kinds import QUEUES
from trainyard.local.cluster.provider import ClusterAccess
from trainyard.scheduling.queues.builtin_queues import root_preparation
from trainyard.scheduling.queues.change_effects import change_findings
from trainyard.scheduling.queues.queue import ROOT
from trainyard.scheduling.queues.transition import transition

from ..common.objects import FIELD_MANAGER
from ..common.threads import run_with_client
from .base import LAG_SECONDS, RETRY_SECONDS, apply_with_retries, with_spec
from .migration import MigrationHook, PlannedWrite, changed_fields

ROOM_MANAGER = f"{FIELD_MANAGER}-room"
"""Field manager of values lowered on ``root``: not that of the patch, whose fields are restored when it is deleted."""


def live_queues(
    access: ClusterAccess,
    manifests: Sequence[Mapping[str, Any]],
    owned: Collection[str],
    retired: Collection[str] = (),
) -> LiveQueues:
    """Return the queues of a cluster, and the jobs in them where a change of the queues may hurt jobs.

    The jobs are the PodGroups of all namespaces, so they are read only if a job in every queue would reject the change,
    or if one of the `retired` queues exists.
    """

    async def read(client: Client) -> LiveQueues:
        live = await read_queues(client)
        busy = [{"metadata": each["metadata"], "spec": {"queue": each["metadata"]["name"]}} for each in live.queues]
        retiring = set(retired) & {each["metadata"]["name"] for each in live.queues}
        if not retiring and not _findings(replace(live, pod_groups=tuple(busy)), manifests, owned):
            return live
        return replace(live, pod_groups=await read_pod_groups(client))

    return run_with_client(access, read)


def reject_changes(live: LiveQueues, manifests: Sequence[Mapping[str, Any]], owned: Collection[str]) -> None:
    """Reject a change of the queue tree that would hurt jobs.

    Raises
    ------
    TrainyardError
        Names each queue, the jobs in it, and what to do first.
    """
    if findings := _findings(live, manifests, owned):
        raise TrainyardError("The queues cannot be changed this way while they contain jobs", findings=findings)


def _findings(live: LiveQueues, manifests: Sequence[Mapping[str, Any]], owned: Collection[str]) -> list[Finding]:
    wanted = {manifest["metadata"]["name"]: manifest["spec"] for manifest in manifests}
    return change_findings(live.queues, wanted, owned=owned, retired=live.retired, pod_groups=live.pod_groups)


class QueueMigration(MigrationHook):
    """Migrates the live queue tree so that Volcano accepts each update by Pulumi.

    Parameters
    ----------
    access
        The cluster.
    manifests
        The desired queues.
    owned
        Names of the live queues of this stack; other queues are not changed.
    """

    kind = "Queue"

    def __init__(self, access: ClusterAccess, manifests: Sequence[Mapping[str, Any]], owned: Collection[str]) -> None:
        super().__init__(access, "queue-convergence")
        self.owned = owned
        self._wanted = {manifest["metadata"]["name"]: manifest for manifest in manifests}

    async def plan(self, client: Client) -> Sequence[PlannedWrite]:
        """Return the writes that shrink and move the queues that conflict with the desired tree."""
        ours = {*self.owned, *self._wanted}
        live = {queue["metadata"]["name"]: queue for queue in await client.list(QUEUES)}
        specs = {name: queue.get("spec") or {} for name, queue in live.items() if name in ours}
        wanted = {name: manifest["spec"] for name, manifest in self._wanted.items()}
        planned, now = [], dict(specs)
        for step in transition(specs, wanted):
            body = with_spec(QUEUES, live[step.queue], step.spec)
            planned.append(PlannedWrite(step.queue, body, changed_fields(now[step.queue], step.spec)))
            now[step.queue] = step.spec
        return planned

    async def execute(self, client: Client, write: PlannedWrite) -> None:
        """Apply one queue, with retries while Volcano's cache lags behind."""
        await _apply(client, write.body)

    async def wait_until_admitted(self, client: Client, name: str) -> None:
        """Wait until Volcano accepts a desired queue in a dry run.

        Raises
        ------
        TrainyardError
            Carries Volcano's message if it still rejects the queue.
        """
        await _apply(client, self._wanted[name], dry_run=True)


class QueuePatchHook(MigrationHook):
    """Prepares the patch of ``root`` or ``default``: waits for the queue, and makes room for a capability of ``root``.

    Parameters
    ----------
    access
        The cluster.
    manifest
        The patch.
    """

    kind = "Queue"
    touches_others = False

    def __init__(self, access: ClusterAccess, manifest: Mapping[str, Any]) -> None:
        self._name: str = manifest["metadata"]["name"]
        super().__init__(access, f"queue-patch-{self._name}")
        self._spec: Mapping[str, Any] = manifest["spec"]

    async def prepare(self, client: Client) -> None:
        """Wait for the queue, and lower the values of ``root`` that exceed the new capability.

        Raises
        ------
        TrainyardError
            Volcano does not create it.
        """
        await self._wait_for_queue(client)
        await super().prepare(client)

    async def plan(self, client: Client) -> Sequence[PlannedWrite]:
        """Return the write that lowers the values of ``root`` that exceed the new capability."""
        live = await client.find(QUEUES, self._name) if self._name == ROOT else None
        if live is None:
            return ()
        spec = live.get("spec") or {}
        room = root_preparation(spec, self._spec["capability"])
        if room is None:
            return ()
        return [PlannedWrite(self._name, {"spec": room}, changed_fields({name: spec.get(name) for name in room}, room))]

    async def execute(self, client: Client, write: PlannedWrite) -> None:
        """Lower the values."""
        await client.merge_patch(QUEUES, write.name, write.body, field_manager=ROOM_MANAGER)

    async def _wait_for_queue(self, client: Client) -> None:
        deadline = time.monotonic() + LAG_SECONDS
        while await client.find(QUEUES, self._name) is None:
            if time.monotonic() > deadline:
                raise TrainyardError(
                    f"Queue {self._name!r} does not exist; Volcano's scheduler creates it when it starts",
                    fix="read the scheduler's log, then run the command again",
                )
            await asyncio.sleep(RETRY_SECONDS)


async def _apply(client: Client, body: Mapping[str, Any], *, dry_run: bool = False) -> None:
    try:
        await apply_with_retries(client, QUEUES, body, dry_run=dry_run)
    except ApiError as error:
        raise TrainyardError(
            f"Volcano rejects queue {body['metadata']['name']!r}: {error.message}",
            fix="correct trainyard:queues, or the changed field of the live queue, then run the command again",
        ) from error
