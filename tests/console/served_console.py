"""A console that is served beside a test, and closed after it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

from trainyard.insight.console.loopback_server import serve
from trainyard.insight.console.recorded_source import StateSource
from trainyard.insight.console.scenario_folder import ScenarioFolder

PROGRAM = Path(sys.executable).with_name("trainyard")


@contextlib.contextmanager
def served(source: StateSource, scenarios: ScenarioFolder | None = None) -> Iterator[str]:
    """Serve a source; return the address with its token."""
    addresses: queue.Queue[str | BaseException] = queue.Queue()
    loop = asyncio.new_event_loop()

    async def run() -> None:
        await serve(source, scenarios=scenarios, browser=False, announce=addresses.put)

    def target() -> None:
        task = loop.create_task(run())
        tasks.append(task)
        try:
            loop.run_until_complete(task)
        except asyncio.CancelledError:
            pass
        except BaseException as error:
            addresses.put(error)

    tasks: list[asyncio.Task[None]] = []
    thread = threading.Thread(target=target)
    thread.start()
    try:
        address = addresses.get(timeout=60)
        if isinstance(address, BaseException):
            raise address
        yield address
    finally:
        loop.call_soon_threadsafe(tasks[0].cancel)
        thread.join(30)
        loop.close()


@contextlib.contextmanager
def command(*arguments: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Run `trainyard console`; return the address with its token, and the process."""
    line = [str(PROGRAM), "console", "--no-browser", *arguments]
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
