"""Time per test file: wall seconds, and CPU seconds of the tests and of all processes that they start.

The slowest files are listed after the tests; the pytest cache keeps the last figures of all
(`.pytest_cache/v/trainyard/times`).
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Generator
from typing import Any, Final

import psutil
import pytest

_INTERVAL: Final = 2.0
"""Seconds between samples: what a detached process uses after its last sample is not counted."""
_SHOWN: Final = 5.0
"""Wall seconds below which a file is not listed."""
_CACHE: Final = "trainyard/times"

_Process = tuple[int, float]
"""Pid and start time, which together name a process."""


class CpuTime:
    """CPU time of this process and of its descendants, detached ones (clusters) included."""

    def __init__(self) -> None:
        self._descendants: dict[_Process, tuple[int, float]] = {}
        self._ended = 0.0
        self._lock = threading.Lock()

    def seconds(self) -> float:
        """Sample the processes and return the CPU seconds used so far."""
        with self._lock:
            found: dict[_Process, tuple[int, float]] = {}
            pids: set[int] = set()
            running = psutil.process_iter(["pid", "ppid", "create_time", "cpu_times"])
            for info in sorted((each.info for each in running), key=lambda info: info["create_time"] or 0):
                process = info["pid"], info["create_time"]
                ours = info["pid"] == os.getpid() or info["ppid"] in pids or process in self._descendants
                if ours and info["cpu_times"]:
                    pids.add(info["pid"])
                    found[process] = info["ppid"], sum(info["cpu_times"][:4])
            # A process that ended was added to its parent's figure by the kernel, unless the parent is gone too.
            for process, (parent, used) in self._descendants.items():
                if process not in found and parent not in pids:
                    self._ended += used
            self._descendants = found
            return self._ended + sum(used for _, used in found.values())


class Times:
    """Wall and CPU seconds by test file."""

    def __init__(self) -> None:
        self.files: dict[str, list[float]] = {}
        self._cpu = CpuTime()
        self._since: tuple[float, float] | None = None

    def start(self) -> None:
        """Start the clock at the first test of a file."""
        if self._since is None:
            if not self.files:
                threading.Thread(target=self._sample, daemon=True).start()
            self._since = time.monotonic(), self._cpu.seconds()

    def stop(self, file: str) -> None:
        """Stop the clock after the last test of a file."""
        assert self._since is not None
        began, used = self._since
        self.add({file: [time.monotonic() - began, self._cpu.seconds() - used]})
        self._since = None

    def add(self, files: dict[str, list[float]]) -> None:
        """Add seconds of files."""
        for file, seconds in files.items():
            self.files[file] = [a + b for a, b in zip(self.files.get(file, [0.0, 0.0]), seconds, strict=True)]

    def lines(self) -> list[str]:
        """Return the table of the slow files, the slowest first."""
        slow = sorted(((wall, cpu, file) for file, (wall, cpu) in self.files.items() if wall >= _SHOWN), reverse=True)
        lines = [f"{wall:7.0f}  {cpu:6.0f}  {file}" for wall, cpu, file in slow]
        if not lines:
            return []
        wall, cpu = (sum(seconds) for seconds in zip(*self.files.values(), strict=True))
        return [" wall s   CPU s", *lines, f"{wall:7.0f}  {cpu:6.0f}  all files"]

    def _sample(self) -> None:
        while True:
            time.sleep(_INTERVAL)
            self._cpu.seconds()


_TIMES: Final = pytest.StashKey[Times]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_TIMES] = Times()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, Any, Any]:
    times = item.config.stash[_TIMES]
    times.start()
    result = yield
    if nextitem is None or nextitem.path != item.path:
        times.stop(item.nodeid.partition("::")[0])
    return result


def pytest_sessionfinish(session: pytest.Session) -> None:
    files = session.config.stash[_TIMES].files
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["times"] = files
    elif getattr(session.config, "cache", None) is not None and files:
        session.config.cache.set(_CACHE, {**session.config.cache.get(_CACHE, {}), **files})


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take over the seconds that an xdist worker measured."""
    node.config.stash[_TIMES].add(getattr(node, "workeroutput", {}).get("times", {}))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if lines := config.stash[_TIMES].lines():
        terminalreporter.section("time per test file")
        for line in lines:
            terminalreporter.write_line(line)
