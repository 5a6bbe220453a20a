"""Supervise one process: adopt it, start it, and restart it with back-off when it exits."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import subprocess
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

from trainyard.errors import TrainyardError
from trainyard.local.cluster.process import (
    NOT_INSTALLED,
    STOPPING,
    ProcessRecord,
    ProcessSpec,
    alive,
    identity,
    last_error_line,
    read_record,
    start,
    stopped,
    write_record,
)

_MAX_BACKOFF = 30.0
_ERROR_BACKOFF = 2.0
_GRACE, _KILL_PATIENCE = 15.0, 10.0
"""Seconds that a process has to exit after the stop request, and after SIGKILL."""
_STABLE_AFTER = 5.0
"""Seconds of run time after which the count of consecutive crashes is reset: a killed API server starts at once."""

_log = logging.getLogger(__name__)


class ProcessSupervisor:
    """Supervisor of one process.

    Parameters
    ----------
    folder
        Folder of the process records.
    name
        Name of the process.
    ready_to_start
        Awaited before each start; returns None if the process may start, else the reason.
    fast_stop_signal
        Signal to stop without delay, for a process that is restarted in place.
    notify
        Called when the record has changed: the process has started, exited, or cannot start.

    Attributes
    ----------
    grace
        Seconds between the stop request and SIGKILL.
    """

    def __init__(
        self,
        folder: Path,
        name: str,
        *,
        ready_to_start: Callable[[], Awaitable[str | None]] | None = None,
        fast_stop_signal: signal.Signals = signal.SIGTERM,
        notify: Callable[[], None] = lambda: None,
    ) -> None:
        self.name = name
        self._folder = folder
        self._ready_to_start = ready_to_start
        self._fast_stop_signal = fast_stop_signal
        self._notify = notify
        self.grace = _GRACE
        self._desired: ProcessSpec | None = None
        self._waiting: str | None = None
        self._changed = asyncio.Event()
        self._child: subprocess.Popen[bytes] | None = None
        self._crashes = 0

    def set_desired(self, spec: ProcessSpec) -> None:
        """Set the process that should run; one with another spec is restarted."""
        if spec != self._desired:
            self._desired, self._waiting = spec, None
            self._changed.set()

    def set_stopped(self, why: str) -> None:
        """Set that no process should run."""
        if self._desired is not None or why != self._waiting:
            self._desired, self._waiting = None, why
            self._changed.set()

    def postpone(self, why: str) -> None:
        """Record why the process cannot start yet; one that the supervisor has adopted keeps running."""
        if self._desired is None and self._waiting is None and alive(self.record):
            return
        self.set_stopped(why)

    @property
    def record(self) -> ProcessRecord:
        """Record of the process."""
        return read_record(self._folder, self.name) or ProcessRecord(self.name)

    @property
    def running(self) -> bool:
        """Whether the process runs with the desired spec."""
        record = self.record
        return self._desired is not None and record.digest == self._desired.digest and alive(record)

    @property
    def inactive(self) -> bool:
        """Whether no process runs or should run."""
        return self._desired is None and not alive(self.record)

    async def run(self) -> None:
        """Supervise the process until cancelled; cancellation does not stop the process.

        A process that already runs is not changed before `set_desired` or `set_stopped` is called.
        """
        while True:
            self._changed.clear()
            try:
                await self._step()
            except TrainyardError as error:
                _log.error("%s: %s", self.name, error)
                await self._sleep(_ERROR_BACKOFF)
            except Exception:
                _log.exception("supervision of %s failed", self.name)
                await self._sleep(_ERROR_BACKOFF)

    async def _step(self) -> None:
        desired, record = self._desired, self.record
        if desired is None and self._waiting is None:
            await self._changed.wait()
        elif desired is None:
            await self._stop(record, signal.SIGTERM)
            if self._waiting != NOT_INSTALLED or read_record(self._folder, self.name) is not None:
                self._write(replace(stopped(self.record), waiting=self._waiting or "", restarts=0))
            self._crashes = 0
            await self._changed.wait()
        elif alive(record) and record.digest == desired.digest:
            await self._watch(record)
        else:
            await self._stop(record, self._fast_stop_signal)
            await self._start(desired)

    async def _start(self, spec: ProcessSpec) -> None:
        why = await self._ready_to_start() if self._ready_to_start else None
        if self._changed.is_set():
            return
        if why is None:
            try:
                self._child, record = start(spec)
            except TrainyardError as error:
                why = str(error)
            else:
                _log.info("started %s, pid %s", spec.name, record.pid)
                self._write(replace(record, restarts=self._crashes))
                return
        self._write(
            replace(stopped(self.record, why), version=spec.version, address=spec.address, restarts=self._crashes)
        )
        await self._sleep(1.0)

    async def _watch(self, record: ProcessRecord) -> None:
        began = time.monotonic()
        assert record.pid is not None  # noqa: S101
        watcher = asyncio.ensure_future(wait_for_exit(record.pid))
        changer = asyncio.ensure_future(self._changed.wait())
        try:
            await asyncio.wait({watcher, changer}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            watcher.cancel()
            changer.cancel()
        if self._changed.is_set() or alive(record):
            return
        code = self._child.wait() if self._child is not None and self._child.pid == record.pid else None
        self._child = None
        self._crashes = 1 if time.monotonic() - began > _STABLE_AFTER else self._crashes + 1
        ending = (
            "exited" if code is None else f"exited with code {code}" if code >= 0 else f"was killed by signal {-code}"
        )
        spec = self._desired
        why = f"{ending}: {last_error_line(spec.log)}" if spec else ending
        _log.warning("%s %s", record.name, why)
        self._write(replace(stopped(record, why), restarts=self._crashes))
        await self._sleep(min(_MAX_BACKOFF, 0.5 * 2.0 ** (self._crashes - 1)))

    async def _stop(self, record: ProcessRecord, request: signal.Signals) -> None:
        """Stop the process, kill it after the grace period, and wait until it has exited."""
        if alive(record) and record.pid is not None:
            _log.info("stopping %s, pid %s", record.name, record.pid)
            self._write(replace(record, waiting=STOPPING))
            for number, patience in ((request, self.grace), (signal.SIGKILL, _KILL_PATIENCE)):
                if not alive(record):
                    break
                with contextlib.suppress(ProcessLookupError):
                    os.kill(record.pid, number)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(patience):
                        await wait_for_exit(record.pid)
        if self._child is not None:
            self._child.poll()
        if alive(record):
            raise TrainyardError(
                f"{record.name} (pid {record.pid}) does not stop", fix="read its log, and stop it manually"
            )

    async def _sleep(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._changed.wait()

    def _write(self, record: ProcessRecord) -> None:
        if record != read_record(self._folder, self.name):
            write_record(self._folder, record)
            self._notify()


async def wait_for_exit(pid: int) -> None:
    """Wait until a process has exited; it need not be a child."""
    if hasattr(os, "pidfd_open"):
        try:
            descriptor = os.pidfd_open(pid)
        except OSError:
            return
        ended = asyncio.Event()
        loop = asyncio.get_running_loop()
        loop.add_reader(descriptor, ended.set)
        try:
            await ended.wait()
        finally:
            loop.remove_reader(descriptor)
            os.close(descriptor)
        return
    while identity(pid) is not None:  # noqa: ASYNC110 - no event without pidfd
        await asyncio.sleep(0.5)
