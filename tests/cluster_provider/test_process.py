"""Processes: known by pid and start time, stopped for certain, kept alive."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.kube.fake_api import eventually
from tests.support import awaited
from trainyard.errors import TrainyardError
from trainyard.local.cluster.process import (
    MEMORY_VARIABLE,
    STOPPING,
    ProcessRecord,
    ProcessSpec,
    alive,
    identity,
    last_error_line,
    last_lines,
    read_record,
    rotate_log,
    start,
    stop,
    write_record,
)
from trainyard.local.cluster.supervisor.process_supervisor import ProcessSupervisor


@pytest.fixture
def spec(tmp_path: Path) -> Iterator[ProcessSpec]:
    yield ProcessSpec("sleeper", "1", (sys.executable, "-c", "import time; time.sleep(600)"), tmp_path / "sleeper.log")
    record = read_record(tmp_path, "sleeper")
    if record is not None:
        stop(record)


def test_a_process_is_found_again_by_its_record_and_stopped(spec: ProcessSpec, tmp_path: Path) -> None:
    _, record = start(spec)
    write_record(tmp_path, record)
    found = read_record(tmp_path, "sleeper")
    assert found == record
    assert alive(found)
    assert os.getsid(record.pid or 0) == record.pid
    stop(record)
    assert not alive(record)
    stop(record)


@pytest.mark.parametrize(("variable", "limits"), [({}, "700MiB None"), ({MEMORY_VARIABLE: "2GiB"}, "2GiB 400")])
def test_the_environment_can_give_programs_more_memory(
    spec: ProcessSpec, monkeypatch: pytest.MonkeyPatch, variable: dict[str, str], limits: str
) -> None:
    monkeypatch.delenv(MEMORY_VARIABLE, raising=False)
    for name, value in variable.items():
        monkeypatch.setenv(name, value)
    code = "import os; print(os.environ['GOMEMLIMIT'], os.environ.get('GOGC'))"
    process, _ = start(replace(spec, command=(sys.executable, "-c", code), environment={"GOMEMLIMIT": "700MiB"}))
    process.wait()
    assert last_lines(spec.log, 1) == limits


def test_a_stale_pid_of_another_process_is_neither_alive_nor_stopped(spec: ProcessSpec) -> None:
    _, record = start(spec)
    stale = replace(record, identity="other-boot:1")
    assert not alive(stale)
    stop(stale)
    assert alive(record)
    stop(record)


def test_a_process_that_ignores_the_request_is_killed(tmp_path: Path) -> None:
    code = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(600)"
    )
    _, record = start(ProcessSpec("stubborn", "1", (sys.executable, "-c", code), tmp_path / "log"))
    awaited("the process's output", lambda: last_lines(tmp_path / "log", 1) == "up")
    began = time.monotonic()
    stop(record, grace=0.3)
    assert not alive(record)
    assert time.monotonic() - began < 5


def test_a_zombie_counts_as_gone() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    awaited("the end of the process", lambda: identity(process.pid) is None)
    process.wait()


def test_a_missing_program_is_one_clear_message(tmp_path: Path) -> None:
    with pytest.raises(TrainyardError, match=r"etcd cannot be started: /nowhere/etcd"):
        start(ProcessSpec("etcd", "1", ("/nowhere/etcd",), tmp_path / "log"))


def test_a_damaged_record_is_as_good_as_none(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text('{"pid": 1')
    assert read_record(tmp_path, "x") is None
    assert not alive(None)
    assert not alive(ProcessRecord("x"))


def test_a_large_log_moves_on_while_its_writer_keeps_the_file(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    with log.open("a") as writer:
        writer.write("old " * 100)
        writer.flush()
        rotate_log(log, limit=100)
        writer.write("new")
        writer.flush()
    assert log.read_text() == "new"
    assert (tmp_path / "a.log.1").read_text().startswith("old ")
    rotate_log(log, limit=100)
    assert log.read_text() == "new"


def test_the_telling_line_is_the_last_error(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text("I1 fine\nE1121 first\nE1121 it is broken\nI1121 goodbye\n")
    assert last_error_line(log) == "E1121 it is broken"
    log.write_text("only this\n")
    assert last_error_line(log) == "only this"
    assert last_error_line(tmp_path / "absent") == ""


async def test_a_dead_process_is_started_again(spec: ProcessSpec, tmp_path: Path) -> None:
    supervisor = ProcessSupervisor(tmp_path, "sleeper")
    supervisor.set_desired(spec)
    task = asyncio.create_task(supervisor.run())
    await eventually(lambda: supervisor.running)
    first = supervisor.record
    os.kill(first.pid or 0, 9)
    await eventually(lambda: supervisor.running and supervisor.record.pid != first.pid)
    assert supervisor.record.restarts == 1
    task.cancel()
    assert alive(supervisor.record)


async def test_a_new_supervisor_adopts_what_runs_and_stops_it_on_request(spec: ProcessSpec, tmp_path: Path) -> None:
    _, record = start(spec)
    write_record(tmp_path, record)
    supervisor = ProcessSupervisor(tmp_path, "sleeper")
    task = asyncio.create_task(supervisor.run())
    await asyncio.sleep(0.05)
    supervisor.postpone("waits for something")
    await asyncio.sleep(0.05)
    assert alive(record)
    supervisor.set_desired(spec)
    await asyncio.sleep(0.05)
    assert supervisor.record == record
    supervisor.set_stopped("not installed")
    await eventually(lambda: not alive(record))
    await eventually(lambda: supervisor.record.waiting == "not installed")
    task.cancel()


async def test_a_changed_command_replaces_the_process(spec: ProcessSpec, tmp_path: Path) -> None:
    supervisor = ProcessSupervisor(tmp_path, "sleeper")
    supervisor.set_desired(spec)
    task = asyncio.create_task(supervisor.run())
    await eventually(lambda: supervisor.running)
    first = supervisor.record
    supervisor.set_desired(replace(spec, environment={"CHANGED": "1"}))
    await eventually(lambda: supervisor.running and supervisor.record.pid != first.pid)
    assert not alive(first)
    assert supervisor.record.restarts == 0
    task.cancel()


LISTENS = """
import pathlib, signal, sys, time
def heard(number, _):
    pathlib.Path(sys.argv[1]).write_text(signal.Signals(number).name)
    if sys.argv[2] == "ends":
        sys.exit(0)
for number in (signal.SIGTERM, signal.SIGINT):
    signal.signal(number, heard)
print("up", flush=True)
time.sleep(600)
"""


def listens(folder: Path, behavior: str, *, changed: str = "") -> ProcessSpec:
    command = (sys.executable, "-c", LISTENS, str(folder / "heard"), behavior)
    return ProcessSpec("listens", "1", command, folder / "listens.log", environment={"CHANGED": changed})


async def test_a_process_is_asked_to_end_at_once_only_where_another_takes_its_place(tmp_path: Path) -> None:
    supervisor = ProcessSupervisor(tmp_path, "listens", fast_stop_signal=signal.SIGINT)
    supervisor.set_desired(listens(tmp_path, "ends"))
    task = asyncio.create_task(supervisor.run())
    await eventually(lambda: last_lines(tmp_path / "listens.log", 1) == "up")
    first = supervisor.record
    supervisor.set_desired(listens(tmp_path, "ends", changed="1"))
    await eventually(lambda: supervisor.running and supervisor.record.pid != first.pid)
    assert (tmp_path / "heard").read_text() == "SIGINT"
    await eventually(lambda: last_lines(tmp_path / "listens.log", 2) == "up\nup")
    supervisor.set_stopped("not installed")
    await eventually(lambda: supervisor.inactive)
    assert (tmp_path / "heard").read_text() == "SIGTERM"
    task.cancel()


async def test_a_process_that_stops_says_so_until_its_grace_period_is_over(tmp_path: Path) -> None:
    notified: list[str] = []
    supervisor = ProcessSupervisor(tmp_path, "listens", notify=lambda: notified.append(supervisor.record.waiting))
    supervisor.set_desired(listens(tmp_path, "goes on"))
    task = asyncio.create_task(supervisor.run())
    await eventually(lambda: last_lines(tmp_path / "listens.log", 1) == "up")
    supervisor.grace = 0.5
    supervisor.set_stopped("scaled to 0 replicas")
    await eventually(lambda: (tmp_path / "heard").exists())
    assert supervisor.record.waiting == STOPPING
    assert alive(supervisor.record)
    await eventually(lambda: supervisor.inactive and supervisor.record.waiting == "scaled to 0 replicas")
    assert notified == ["", STOPPING, "scaled to 0 replicas"]
    task.cancel()


async def test_a_process_that_keeps_failing_says_why(tmp_path: Path) -> None:
    code = "import sys; print('Error: no such thing'); sys.exit(3)"
    supervisor = ProcessSupervisor(tmp_path, "failing")
    supervisor.set_desired(ProcessSpec("failing", "1", (sys.executable, "-c", code), tmp_path / "failing.log"))
    task = asyncio.create_task(supervisor.run())
    await eventually(lambda: supervisor.record.restarts >= 2 and supervisor.record.waiting)
    assert supervisor.record.waiting == "exited with code 3: Error: no such thing"
    task.cancel()
