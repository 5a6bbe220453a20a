"""Write reports to TrainJobs, at most once a second per TrainJob; a later report replaces a pending one.

Every replica writes, as with upstream, so writes are not fenced. Reports are applied server-side with upstream's field
manager, so that fields missing in a report are removed, whichever of the two controllers wrote the previous report. The
resourceVersion is the precondition that protects a later TrainJob of the same name: the API server ignores the uid in
status updates.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from trainyard.api.constants import API_VERSION, TRAIN_JOB
from trainyard.kube.api_errors import ApiError
from trainyard.kube.client import Client
from trainyard.kube.resource import Object, uid_of, version_of
from trainyard.kube.training_kinds import TRAIN_JOBS

_FIELD_MANAGER = "trainer-status"
_INTERVAL_SECONDS = 1.0
_WRITE_SECONDS = 10.0
_CONCURRENT = 8


@dataclass(frozen=True)
class _Report:
    """A pending report."""

    train_job: Object
    status: Mapping[str, Any]
    written: asyncio.Future[None]


class StatusWriter:
    """Writer of ``status.trainerStatus``.

    Parameters
    ----------
    client
        API client, not fenced.
    interval
        Minimum seconds between two writes to one TrainJob.
    """

    def __init__(self, client: Client, *, interval: float = _INTERVAL_SECONDS) -> None:
        self._client = client
        self._interval = interval
        self._slots = asyncio.Semaphore(_CONCURRENT)
        self._pending: dict[str, _Report] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def write(self, train_job: Object, status: Mapping[str, Any]) -> None:
        """Write a report; return when it is written or replaced by a later one.

        Raises
        ------
        ApiError, TransportError, TimeoutError
            If it was not written.
        """
        uid = uid_of(train_job)
        written: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        replaced = self._pending.get(uid)
        if replaced is not None and not replaced.written.done():
            replaced.written.set_result(None)
        self._pending[uid] = _Report(train_job, status, written)
        if uid not in self._tasks:
            self._tasks[uid] = asyncio.create_task(self._write_pending(uid))
        await written

    async def close(self) -> None:
        """Drop pending reports."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _write_pending(self, uid: str) -> None:
        """Write the pending reports of one TrainJob until there are none for an interval."""
        try:
            while uid in self._pending:
                await self._write_report(self._pending.pop(uid))
                await asyncio.sleep(self._interval)
        finally:
            del self._tasks[uid]
            if uid in self._pending:
                self._pending.pop(uid).written.cancel()

    async def _write_report(self, report: _Report) -> None:
        """Write a report and set its result."""
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
        stored = report.train_job
        metadata = stored["metadata"]
        namespace, name = metadata["namespace"], metadata["name"]
        while True:
            body = {
                "apiVersion": API_VERSION,
                "kind": TRAIN_JOB,
                "metadata": {"name": name, "namespace": namespace, "resourceVersion": str(version_of(stored))},
                "status": {"trainerStatus": dict(report.status)},
            }
            try:
                # The response is not cached: it may contain a change whose watch event has not been handled yet.
                await self._client.apply(TRAIN_JOBS, body, field_manager=_FIELD_MANAGER, subresource="status")
            except ApiError as error:
                if not error.conflict:
                    raise
            else:
                return
            stored = await self._client.get(TRAIN_JOBS, name, namespace=namespace)
            if uid_of(stored) != uid_of(report.train_job):
                raise ApiError(404, "NotFound", f"TrainJob {name} was replaced by another")
