"""A console that is served beside a test, and closed after it."""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from anyio.from_thread import start_blocking_portal

from trainyard.insight.console.loopback_server import serve
from trainyard.insight.console.recorded_source import StateSource
from trainyard.insight.console.scenario_folder import ScenarioFolder

PROGRAM = Path(sys.executable).with_name("trainyard")


@contextlib.contextmanager
def served(source: StateSource, scenarios: ScenarioFolder | None = None) -> Iterator[str]:
    """Serve a source; return the address with its token."""
    addresses: queue.SimpleQueue[str] = queue.SimpleQueue()
    with start_blocking_portal() as portal:
        task = portal.start_task_soon(
            partial(serve, source, scenarios=scenarios, browser=False, announce=addresses.put)
        )
        task.add_done_callback(lambda _: addresses.put(""))
        try:
            yield addresses.get(timeout=60) or str(task.result())
        finally:
            task.cancel()


@contextlib.contextmanager
def command(*arguments: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Run `trainyard console`; return the address with its token, and the process."""
    # As a shell starts what it puts in the background: SIGINT is ignored unless the program handles it.
    line = ["sh", "-c", 'trap "" INT; exec "$@"', "sh", str(PROGRAM), "console", "--no-browser", *arguments]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment) as run:
        try:
            assert run.stdout is not None
            first = run.stdout.readline()
            assert first.startswith("Console: http://127.0.0.1:"), first + run.stdout.read()
            yield first.removeprefix("Console: ").strip(), run
        finally:
            run.send_signal(signal.SIGINT)
            run.wait(20)
