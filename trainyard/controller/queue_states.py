"""Queue states (leader only): close the queues that the Platform lists, and reopen those that this controller closed.

The Platform lists a queue that is removed until it no longer exists, so a removal that is repeated finds it closed.

A Volcano Queue has no field to close it; a Command closes it. Volcano then rejects new jobs and waits for the jobs in
the queue. Queues that an operator closed stay closed: only queues with the annotation are opened. The annotation is
written before the Command, because Volcano rejects all changes of a closing queue.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from enum import StrEnum
from typing import Any

from trainyard.api.constants import PLATFORM_NAME
from trainyard.controller.level_triggered import log_failure, run_level_triggered
from trainyard.kube.api_errors import ApiError, FencedError
from trainyard.kube.backoff import Backoff
from trainyard.kube.client import Client
from trainyard.kube.informer import Informer
from trainyard.kube.resource import Object
from trainyard.kube.store import StoreChange
from trainyard.kube.training_kinds import COMMANDS, QUEUES

CLOSED_ANNOTATION = "trainyard.dev/closed"
"""Annotation of queues that the controller closed."""

_LOG = logging.getLogger(__name__)
_FIELD_MANAGER = "trainyard-controller"
_NOT_INSTALLED_RETRY = 60.0


class _Action(StrEnum):
    CLOSE = "CloseQueue"
    OPEN = "OpenQueue"


class QueueStates:
    """Reconcile the states of queues with the Platform object.

    All decisions depend only on stored objects, so the controller can be stopped between any two writes.

    Parameters
    ----------
    client
        Fenced API client.
    platforms
        Shared informer of the Platform object; not started here.
    namespace
        Namespace of the Commands.
    backoff
        Delays after failures and while Commands are executed.
    """

    def __init__(
        self,
        client: Client,
        platforms: Informer,
        *,
        namespace: str,
        backoff: Backoff | None = None,
    ) -> None:
        self._client = client
        self._platforms = platforms
        self._namespace = namespace
        self._backoff = backoff or Backoff(0.2, 30.0)
        self._changed = asyncio.Event()
        self._queues = Informer(client, QUEUES, transform=_state_only, missing_retry=_NOT_INSTALLED_RETRY)
        for informer in (self._queues, platforms):
            informer.subscribe(self._on_change)

    @property
    def informers(self) -> Sequence[Informer]:
        """Informers that `run` starts."""
        return (self._queues,)

    async def run(self) -> None:
        """Run until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._queues.run())
            group.create_task(self._run_steps())

    async def _run_steps(self) -> None:
        await asyncio.gather(self._queues.wait_settled(), self._platforms.wait_settled())
        # The shared watch may lag behind what the former leader read and wrote.
        await self._platforms.refresh()
        await run_level_triggered("states of queues", self.step, self._changed, self._backoff)

    async def step(self) -> bool:
        """Create missing Commands; return whether all queues have the desired state.

        A rejected queue is logged and does not delay the others.

        Raises
        ------
        FencedError
            If this process is no longer the leader.
        """
        platform = self._platforms.store.get("", PLATFORM_NAME)
        if platform is None:
            return True
        spec = platform.get("spec") or {}
        closed = {*spec.get("closedQueues", ()), *spec.get("retiredQueues", ())}
        settled = True
        for _, name in sorted(self._queues.store.keys()):
            if (queue := self._queues.store.get("", name)) is None:
                continue
            try:
                settled &= await (self._close(queue) if name in closed else self._open(queue))
            except FencedError:
                raise
            except Exception as error:
                log_failure(f"state of queue {name}", error)
                settled = False
        return settled

    async def _close(self, queue: Object) -> bool:
        if _state(queue) != "Open":
            return True
        if not _closed_by_controller(queue):
            queue = await self._annotate(queue, "true")
        await self._command(queue, _Action.CLOSE)
        return False

    async def _open(self, queue: Object) -> bool:
        if not _closed_by_controller(queue):
            return True
        if _state(queue) != "Open":
            await self._command(queue, _Action.OPEN)
        elif await self._client.find(COMMANDS, _name(queue, _Action.CLOSE), namespace=self._namespace) is None:
            await self._annotate(queue, None)
            return True
        return False

    async def _annotate(self, queue: Object, value: str | None) -> Object:
        metadata = {"uid": queue["metadata"]["uid"], "annotations": {CLOSED_ANNOTATION: value}}
        name, patch = queue["metadata"]["name"], {"metadata": metadata}
        stored = await self._client.merge_patch(QUEUES, name, patch, field_manager=_FIELD_MANAGER)
        self._queues.record_write(stored)
        return stored

    async def _command(self, queue: Object, action: _Action) -> None:
        name, uid = queue["metadata"]["name"], queue["metadata"]["uid"]
        owner = {"apiVersion": QUEUES.api_version, "kind": QUEUES.kind, "name": name, "uid": uid, "controller": True}
        metadata = {"name": _name(queue, action), "namespace": self._namespace, "ownerReferences": [owner]}
        body = {"apiVersion": COMMANDS.api_version, "kind": COMMANDS.kind, "metadata": metadata}
        try:
            await self._client.create(COMMANDS, {**body, "action": action.value, "target": owner})
            _LOG.info("created Command %s for queue %s", action.value, name)
        except ApiError as error:
            if not error.conflict:
                raise

    def _on_change(self, change: StoreChange) -> None:
        self._changed.set()


def _name(queue: Object, action: _Action) -> str:
    return f"{queue['metadata']['name']}-{action.value.lower()}"


def _state(queue: Object) -> Any:
    return (queue.get("status") or {}).get("state")


def _closed_by_controller(queue: Object) -> bool:
    return CLOSED_ANNOTATION in (queue["metadata"].get("annotations") or {})


def _state_only(queue: Object) -> Object:
    metadata = queue["metadata"]
    kept = {key: metadata[key] for key in ("name", "uid", "resourceVersion", "annotations") if key in metadata}
    return {"metadata": kept, "status": {"state": _state(queue)}}
