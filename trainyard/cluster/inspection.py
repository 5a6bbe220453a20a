"""Status of the processes of an embedded control plane: records, pids, health endpoints, logs."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from trainyard.cluster.base import ClusterStatus, ProcessStatus
from trainyard.cluster.controlplane import CONTROL_PLANE_PROGRAMS, control_plane
from trainyard.cluster.files import ClusterFolder
from trainyard.cluster.health import Probe, answers
from trainyard.cluster.ports import PORT_NAMES, SLOTS, slot_name, slot_ports
from trainyard.cluster.process import (
    HEARTBEAT,
    NOT_INSTALLED,
    STOPPING,
    ProcessRecord,
    alive,
    read_record,
    telling_line,
)
from trainyard.cluster.state import ClusterState, load_state
from trainyard.cluster.supervisor.host_programs import RECIPES, Recipe, RunContext

__all__ = ["host_processes", "inspect", "log_file"]

_SILENT = 60.0
"""Seconds without a heartbeat after which the supervisor hangs."""


@dataclass(frozen=True)
class _Replica:
    """A process as people see it: the first replica has the program's name, further ones a number."""

    name: str
    program: str
    slot: int
    record: ProcessRecord


def host_processes() -> tuple[tuple[str, Recipe], ...]:
    """Return name and recipe of every process that the platform's Deployments may have."""
    return tuple((slot_name(program, slot), recipe) for program, recipe in RECIPES.items() for slot in range(SLOTS))


def log_file(folder: ClusterFolder, name: str) -> Path | None:
    """Return the log file of a process by its name in the status, None where there is no such process."""
    if name in ("supervisor", *CONTROL_PLANE_PROGRAMS):
        return folder.log(name)
    found = (replica for program in RECIPES for replica in _replicas(folder, program) if replica.name == name)
    return next((folder.log(slot_name(replica.program, replica.slot)) for replica in found), None)


def _replicas(folder: ClusterFolder, program: str) -> list[_Replica]:
    """Return the replicas of a program; one that is not installed where there are none.

    Those that stop come last, so that the others have the numbers that they keep.
    """
    records = {slot: read_record(folder.processes, slot_name(program, slot)) for slot in range(SLOTS)}
    present = [
        (record.waiting == STOPPING, slot, record)
        for slot, record in records.items()
        if record is not None and (record.pid is not None or record.waiting not in ("", NOT_INSTALLED))
    ]
    ordered = sorted(present, key=lambda each: each[:2]) or [(False, 0, records[0] or ProcessRecord(program))]
    return [
        _Replica(f"{program}-{number}" if number else program, program, slot, record)
        for number, (_, slot, record) in enumerate(ordered)
    ]


def inspect(folder: ClusterFolder) -> ClusterStatus:
    """Return the status of every process of a cluster."""
    state = load_state(folder)
    if state is None:
        return ClusterStatus(
            folder.name,
            None,
            (),
            f"cluster {folder.name} does not exist; run `trainyard cluster up --name {folder.name}`",
        )
    if not folder.kubeconfig.is_file() or any(name not in state.programs for name in CONTROL_PLANE_PROGRAMS):
        return ClusterStatus(
            folder.name,
            None,
            (),
            f"its start was interrupted; run `trainyard cluster up --name {folder.name}` again",
        )
    if any(use not in state.ports for use in PORT_NAMES):
        return ClusterStatus(
            folder.name,
            None,
            (),
            f"it was started by an older Trainyard; run `trainyard cluster up --name {folder.name}`",
        )
    own: list[Callable[[], ProcessStatus]] = [
        partial(_process, state, name, folder.log(name), _record(folder, name), process.probe)
        for name, process in ((process.spec.name, process) for process in control_plane(folder, state))
    ]
    platform: list[Callable[[], ProcessStatus]] = [
        partial(_replica, folder, state, replica) for program in RECIPES for replica in _replicas(folder, program)
    ]
    checks = [*own, *platform]
    with ThreadPoolExecutor(max_workers=len(checks)) as pool:
        found = pool.map(lambda check: check(), checks)
    return ClusterStatus(folder.name, folder.kubeconfig, (_supervisor(folder), *found))


def _record(folder: ClusterFolder, name: str) -> ProcessRecord:
    return read_record(folder.processes, name) or ProcessRecord(name)


def _supervisor(folder: ClusterFolder) -> ProcessStatus:
    record = read_record(folder.processes, "supervisor")
    log = folder.log("supervisor")
    if record is None or not alive(record):
        detail = "stopped" if record is None or record.waiting else f"pid {record.pid} is gone: {telling_line(log)}"
        return ProcessStatus("supervisor", "", "", None, "stopped" if detail == "stopped" else "unhealthy", detail, log)
    try:
        silent = time.time() - (folder.processes / HEARTBEAT).stat().st_mtime
    except OSError:
        return ProcessStatus("supervisor", "", "", record.pid, "starting", "starts", log)
    if silent > _SILENT:
        return ProcessStatus(
            "supervisor", "", "", record.pid, "unhealthy", f"gave no sign of life for {silent:.0f} s", log
        )
    return ProcessStatus("supervisor", "", "", record.pid, "healthy", "", log)


def _replica(folder: ClusterFolder, state: ClusterState, replica: _Replica) -> ProcessStatus:
    recipe, record = RECIPES[replica.program], replica.record
    log = folder.log(slot_name(replica.program, replica.slot))
    pinned = state.programs.get(replica.program)
    version = record.version or (pinned.version if pinned else "")
    if alive(record) and record.waiting == STOPPING:
        return ProcessStatus(replica.name, version, record.address, record.pid, STOPPING, "", log)
    if not alive(record):
        if record.waiting in ("", NOT_INSTALLED) and record.pid is None:
            return ProcessStatus(replica.name, version, "", None, "not installed", "", None)
        if record.waiting.startswith("scaled to 0"):
            return ProcessStatus(replica.name, version, "", None, "not installed", record.waiting, log)
    ports = slot_ports(state.ports, replica.slot)
    probe = recipe.health(RunContext(Path(), "", Path(), Path(), ports))
    listens = (ports[recipe.listens], state.ports[recipe.listens]) if recipe.listens else ()
    return _process(state, replica.name, log, record, probe, listens)


def _process(
    state: ClusterState,
    name: str,
    log: Path,
    record: ProcessRecord,
    probe: Probe,
    listens: tuple[int, ...] = (),
) -> ProcessStatus:
    pinned = state.programs.get(name)
    version = record.version or (pinned.version if pinned else "")
    if alive(record):
        why = answers(probe, *listens)
        if why is None:
            return ProcessStatus(name, version, record.address, record.pid, "healthy", "", log)
        return ProcessStatus(
            name, version, record.address, record.pid, "unhealthy", f"{why}; its log says: {telling_line(log)}", log
        )
    if record.waiting == "stopped":
        return ProcessStatus(name, version, record.address, None, "stopped", "stopped", log)
    detail = record.waiting or (f"pid {record.pid} is gone: {telling_line(log)}" if record.pid else "does not run")
    return ProcessStatus(name, version, record.address, None, "unhealthy", detail, log)
