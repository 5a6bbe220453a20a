"""Write reports to TrainJobs, at most once a second each; a later report replaces a pending one.

Every replica writes, as upstream's does, so the writes are not fenced. They are applied under upstream's field manager,
so that what a report leaves out is removed, whichever of the two controllers took the report before it. The
resourceVersion makes sure that a report never reaches a later TrainJob of the same name: the API server ignores a uid
in a change of a status.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from trainyard.api.constants import API_VERSION, TRAIN_JOB
from trainyard.controller.resources import TRAIN_JOBS
from trainyard.kube import ApiError, Client, Object, uid_of, version_of

__all__ = ["StatusWriter"]

_FIELD_MANAGER = "trainer-status"
_INTERVAL_SECONDS = 1.0
_WRITE_SECONDS = 10.0
_AT_ONCE = 8


@dataclass(frozen=True)
class _Report:
    """A report on its way."""

    train_job: Object
    status: Mapping[str, Any]
    written: asyncio.Future[None]


class StatusWriter:
    """The reports of TrainJobs on their way into ``status.trainerStatus``.

    Parameters
    ----------
    client
        API client, not fenced.
    interval
        Least seconds between two writes to one TrainJob.
    """

    def __init__(self, client: Client, *, interval: float = _INTERVAL_SECONDS) -> None:
        self._client = client
        self._interval = interval
        self._slots = asyncio.Semaphore(_AT_ONCE)
        self._waiting: dict[str, _Report] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def write(self, train_job: Object, status: Mapping[str, Any]) -> None:
        """Write a report; return when it, or a later one in its place, is on its way into the TrainJob.

        Raises
        ------
        ApiError, TransportError, TimeoutError
            If it was not written.
        """
        uid = uid_of(train_job)
        written: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        replaced = self._waiting.get(uid)
        if replaced is not None and not replaced.written.done():
            replaced.written.set_result(None)
        self._waiting[uid] = _Report(train_job, status, written)
        if uid not in self._tasks:
            self._tasks[uid] = asyncio.create_task(self._work(uid))
        await written

    async def close(self) -> None:
        """Drop what waits."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _work(self, uid: str) -> None:
        """Write what waits for one TrainJob until nothing has come for an interval."""
        try:
            while uid in self._waiting:
                await self._answer(self._waiting.pop(uid))
                await asyncio.sleep(self._interval)
        finally:
            del self._tasks[uid]
            if uid in self._waiting:
                self._waiting.pop(uid).written.cancel()

    async def _answer(self, report: _Report) -> None:
        """Write a report and tell the sender what became of it."""
        try:
            async with self._slots, asyncio.timeout(_WRITE_SECONDS):
                await self._apply(report)
        except asyncio.CancelledError:
            report.written.cancel()
            raise
        except Exception as error:
            if not report.written.done():
                report.written.set_exception(error)
        else:
            if not report.written.done():
                report.written.set_result(None)

    async def _apply(self, report: _Report) -> None:
        held = report.train_job
        metadata = held["metadata"]
        namespace, name = metadata["namespace"], metadata["name"]
        while True:
            body = {
                "apiVersion": API_VERSION,
                "kind": TRAIN_JOB,
                "metadata": {"name": name, "namespace": namespace, "resourceVersion": str(version_of(held))},
                "status": {"trainerStatus": dict(report.status)},
            }
            try:
                # The answer is not taken into the cache: it may hold a change that nobody has been told of yet.
                await self._client.apply(TRAIN_JOBS, body, field_manager=_FIELD_MANAGER, subresource="status")
            except ApiError as error:
                if not error.conflict:
                    raise
            else:
                return
            held = await self._client.get(TRAIN_JOBS, name, namespace=namespace)
            if uid_of(held) != uid_of(report.train_job):
                raise ApiError(404, "NotFound", f"TrainJob {name} was replaced by another")
