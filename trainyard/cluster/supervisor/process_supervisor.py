"""Supervise one process: adopt it, start it, and restart it when it ends."""

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

from trainyard.cluster.process import (
    NOT_INSTALLED,
    STOPPING,
    ProcessRecord,
    ProcessSpec,
    alive,
    identity,
    read_record,
    start,
    stopped,
    telling_line,
    write_record,
)
from trainyard.problem import TrainyardError

__all__ = ["Keeper", "exited"]

_LONGEST_PAUSE = 30.0
_AFTER_FAILURE = 2.0
_GRACE, _KILL_PATIENCE = 15.0, 10.0
"""Seconds for a process to end after the request to, and after being killed."""
_STEADY = 60.0
"""Seconds a process must have lived for its next death to count as the first."""

_log = logging.getLogger(__name__)


class Keeper:
    """One process.

    Parameters
    ----------
    folder
        Folder of the process records.
    name
        Name of the process.
    ready_to_start
        Awaited before each start; returns None when the process may start, else why not.
    at_once
        Signal that asks for an end without delay, for a process that is replaced where it is.
    notify
        Called when the record changed: the process started, ended, or cannot start.

    Attributes
    ----------
    grace
        Seconds between the request to stop and the process being killed.
    """

    def __init__(
        self,
        folder: Path,
        name: str,
        *,
        ready_to_start: Callable[[], Awaitable[str | None]] | None = None,
        at_once: signal.Signals = signal.SIGTERM,
        notify: Callable[[], None] = lambda: None,
    ) -> None:
        self.name = name
        self._folder = folder
        self._ready_to_start = ready_to_start
        self._at_once = at_once
        self._notify = notify
        self.grace = _GRACE
        self._wanted: ProcessSpec | None = None
        self._waiting: str | None = None
        self._changed = asyncio.Event()
        self._child: subprocess.Popen[bytes] | None = None
        self._deaths = 0

    def want(self, spec: ProcessSpec) -> None:
        """Have the process run like this; one that runs differently is started anew."""
        if spec != self._wanted:
            self._wanted, self._waiting = spec, None
            self._changed.set()

    def unwant(self, why: str) -> None:
        """Have the process not run."""
        if self._wanted is not None or why != self._waiting:
            self._wanted, self._waiting = None, why
            self._changed.set()

    def postpone(self, why: str) -> None:
        """Say why the process cannot be wanted yet; one that runs since before the supervisor is left alone."""
        if self._wanted is None and self._waiting is None and alive(self.record):
            return
        self.unwant(why)

    @property
    def record(self) -> ProcessRecord:
        """What is known of the process."""
        return read_record(self._folder, self.name) or ProcessRecord(self.name)

    @property
    def running(self) -> bool:
        """Whether the process runs as wanted."""
        record = self.record
        return self._wanted is not None and record.digest == self._wanted.digest and alive(record)

    @property
    def resting(self) -> bool:
        """Whether the process neither runs nor is wanted."""
        return self._wanted is None and not alive(self.record)

    async def run(self) -> None:
        """Keep the process until cancelled; being cancelled does not stop the process.

        A process that ran before is left alone until somebody says what is wanted.
        """
        while True:
            self._changed.clear()
            try:
                await self._step()
            except TrainyardError as error:
                _log.error("%s: %s", self.name, error)
                await self._pause(_AFTER_FAILURE)
            except Exception:
                _log.exception("%s cannot be supervised", self.name)
                await self._pause(_AFTER_FAILURE)

    async def _step(self) -> None:
        wanted, record = self._wanted, self.record
        if wanted is None and self._waiting is None:
            await self._changed.wait()
        elif wanted is None:
            await self._stop(record, signal.SIGTERM)
            if self._waiting != NOT_INSTALLED or read_record(self._folder, self.name) is not None:
                self._write(replace(stopped(self.record), waiting=self._waiting or "", restarts=0))
            self._deaths = 0
            await self._changed.wait()
        elif alive(record) and record.digest == wanted.digest:
            await self._attend(record)
        else:
            await self._stop(record, self._at_once)
            await self._start(wanted)

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
                self._write(replace(record, restarts=self._deaths))
                return
        self._write(
            replace(stopped(self.record, why), version=spec.version, address=spec.address, restarts=self._deaths)
        )
        await self._pause(1.0)

    async def _attend(self, record: ProcessRecord) -> None:
        began = time.monotonic()
        assert record.pid is not None  # noqa: S101
        watcher = asyncio.ensure_future(exited(record.pid))
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
        self._deaths = 1 if time.monotonic() - began > _STEADY else self._deaths + 1
        ending = (
            "ended" if code is None else f"ended with code {code}" if code >= 0 else f"was killed by signal {-code}"
        )
        spec = self._wanted
        why = f"{ending}: {telling_line(spec.log)}" if spec else ending
        _log.warning("%s %s", record.name, why)
        self._write(replace(stopped(record, why), restarts=self._deaths))
        await self._pause(min(_LONGEST_PAUSE, 0.5 * 2.0 ** (self._deaths - 1)))

    async def _stop(self, record: ProcessRecord, request: signal.Signals) -> None:
        """Ask the process to end, kill it after the grace period, and wait for its end."""
        if alive(record) and record.pid is not None:
            _log.info("stopping %s, pid %s", record.name, record.pid)
            self._write(replace(record, waiting=STOPPING))
            for number, patience in ((request, self.grace), (signal.SIGKILL, _KILL_PATIENCE)):
                if not alive(record):
                    break
                with contextlib.suppress(ProcessLookupError):
                    os.kill(record.pid, number)
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(exited(record.pid), patience)
        if self._child is not None:
            self._child.poll()
        if alive(record):
            raise TrainyardError(
                f"{record.name} (pid {record.pid}) does not stop", fix="look at its log, and stop it by hand"
            )

    async def _pause(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._changed.wait(), seconds)

    def _write(self, record: ProcessRecord) -> None:
        if record != read_record(self._folder, self.name):
            write_record(self._folder, record)
            self._notify()


async def exited(pid: int) -> None:
    """Wait for the end of a process that need not be a child."""
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
    while identity(pid) is not None:  # noqa: ASYNC110 - there is no event to wait for without pidfd
        await asyncio.sleep(0.5)
