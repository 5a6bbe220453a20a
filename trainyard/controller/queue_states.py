"""Queue states, the leader's side: closes the queues that the platform names, and reopens those it closed.

A Volcano Queue has no field that closes it. A Command has to be sent; Volcano then refuses new jobs and waits for the
ones in the queue. A queue that an operator closed by hand stays closed: only queues that carry our annotation are
opened. The annotation is written before the Command, because Volcano refuses every change of a queue that is closing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from enum import StrEnum
from typing import Any

from trainyard.api.constants import PLATFORM_NAME
from trainyard.controller.level_triggered import keep
from trainyard.controller.resources import COMMANDS, QUEUES
from trainyard.kube import ApiError, Backoff, Change, Client, Informer, Object, TransportError

__all__ = ["CLOSED_ANNOTATION", "QueueStates"]

CLOSED_ANNOTATION = "trainyard.dev/closed"
"""On a queue that the controller closed."""

_LOG = logging.getLogger(__name__)
_FIELD_MANAGER = "trainyard-controller"
_NOT_INSTALLED_RETRY = 60.0


class _Action(StrEnum):
    CLOSE = "CloseQueue"
    OPEN = "OpenQueue"


class QueueStates:
    """Keeps queues open or closed as the Platform object says.

    Everything is decided from what is stored, so it may be stopped between any two writes.

    Parameters
    ----------
    client
        Fenced API client.
    platforms
        Informer of the Platform object; it runs elsewhere.
    namespace
        Where the Commands are made.
    backoff
        Waiting after failures, and for a Command to be carried out.
    """

    def __init__(self, client: Client, platforms: Informer, *, namespace: str, backoff: Backoff | None = None) -> None:
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
        """What runs only beside it."""
        return (self._queues,)

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._queues.run())
            group.create_task(self._work())

    async def _work(self) -> None:
        await asyncio.gather(self._queues.wait_settled(), self._platforms.wait_settled())
        await keep(self._tried, self._changed, self._backoff)

    async def _tried(self) -> bool:
        try:
            return await self.step()
        except (ApiError, TransportError) as error:
            _LOG.warning("states of queues: %s; tried again", error)
            return False

    async def step(self) -> bool:
        """Send the commands that are missing; return whether nothing is under way any more.

        Raises
        ------
        ApiError, TransportError
            If a write failed; call again.
        """
        platform = self._platforms.store.get("", PLATFORM_NAME)
        if platform is None:
            return True
        closed = {*platform["spec"].get("closedQueues", ()), *platform["spec"].get("retiredQueues", ())}
        settled = True
        for _, name in sorted(self._queues.store.keys()):
            queue = self._queues.store.get("", name)
            if queue is not None:
                settled &= await (self._close(queue) if name in closed else self._open(queue))
        return settled

    async def _close(self, queue: Object) -> bool:
        if _state(queue) != "Open":
            return True
        if not _closed_by_us(queue):
            queue = await self._annotate(queue, "true")
        await self._command(queue, _Action.CLOSE)
        return False

    async def _open(self, queue: Object) -> bool:
        if not _closed_by_us(queue):
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
            _LOG.info("%s of queue %s sent", action.value, name)
        except ApiError as error:
            if not error.conflict:
                raise

    def _on_change(self, change: Change) -> None:
        self._changed.set()


def _name(queue: Object, action: _Action) -> str:
    return f"{queue['metadata']['name']}-{action.value.lower()}"


def _state(queue: Object) -> Any:
    return (queue.get("status") or {}).get("state")


def _closed_by_us(queue: Object) -> bool:
    return CLOSED_ANNOTATION in (queue["metadata"].get("annotations") or {})


def _state_only(queue: Object) -> Object:
    metadata = queue["metadata"]
    kept = {key: metadata[key] for key in ("name", "uid", "resourceVersion", "annotations") if key in metadata}
    return {"metadata": kept, "status": {"state": _state(queue)}}
