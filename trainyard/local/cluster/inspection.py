"""Status of the processes of an embedded control plane: records, pids, health endpoints, logs."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from trainyard.local.cluster.cluster_processes import cluster_processes
from trainyard.local.cluster.controlplane import CONTROL_PLANE_PROGRAMS
from trainyard.local.cluster.folders import ClusterFolder
from trainyard.local.cluster.health_probes import Probe, check_health
from trainyard.local.cluster.ports import PORT_NAMES, SLOTS, slot_name, slot_ports
from trainyard.local.cluster.process import (
    HEARTBEAT,
    NOT_INSTALLED,
    STOPPING,
    ProcessRecord,
    alive,
    last_error_line,
    read_record,
)
from trainyard.local.cluster.provider import ClusterStatus, ProcessStatus
from trainyard.local.cluster.state import ClusterState, load_state
from trainyard.local.cluster.supervisor.host_programs import HOST_PROGRAMS
from trainyard.local.cluster.supervisor.host_programs.base import HostProgram, RunContext

_HEARTBEAT_TIMEOUT = 60.0
"""Seconds without a heartbeat after which the supervisor counts as unhealthy."""


@dataclass(frozen=True)
class _Replica:
    """A process by its displayed name: the program's name for the first replica, with a number for further ones."""

    name: str
    program: str
    slot: int
    record: ProcessRecord


def host_processes() -> tuple[tuple[str, HostProgram], ...]:
    """Return the name and definition of each process that the platform's Deployments may have."""
    return tuple((slot_name(name, slot), program) for name, program in HOST_PROGRAMS.items() for slot in range(SLOTS))


def log_file(folder: ClusterFolder, name: str) -> Path | None:
    """Return the log file of a process by its displayed name; None if the process does not exist."""
    if name in ("supervisor", *CONTROL_PLANE_PROGRAMS):
        return folder.log(name)
    found = (replica for program in HOST_PROGRAMS for replica in _replicas(folder, program) if replica.name == name)
    return next((folder.log(slot_name(replica.program, replica.slot)) for replica in found), None)


def _replicas(folder: ClusterFolder, program: str) -> list[_Replica]:
    """Return the replicas of a program, or one that is not installed if there are none; none of an optional one.

    Stopping replicas are last, so that the others keep their numbers.
    """
    records = {slot: read_record(folder.processes, slot_name(program, slot)) for slot in range(SLOTS)}
    present = [
        (record.waiting == STOPPING, slot, record)
        for slot, record in records.items()
        if record is not None and (record.pid is not None or record.waiting not in ("", NOT_INSTALLED))
    ]
    absent = [] if HOST_PROGRAMS[program].optional else [(False, 0, records[0] or ProcessRecord(program))]
    ordered = sorted(present, key=lambda each: each[:2]) or absent
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
        for name, process in ((process.spec.name, process) for process in cluster_processes(folder, state))
    ]
    # Where nodes have kubelets, the platform's programs are pods.
    hosted = () if state.kubelets else HOST_PROGRAMS
    platform: list[Callable[[], ProcessStatus]] = [
        partial(_replica, folder, state, replica) for program in hosted for replica in _replicas(folder, program)
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
        if record is None or record.waiting:
            return ProcessStatus("supervisor", "", "", None, "stopped", "stopped", log)
        detail = f"pid {record.pid} has exited: {last_error_line(log)}"
        return ProcessStatus("supervisor", "", "", None, "unhealthy", detail, log)
    try:
        silent = time.time() - (folder.processes / HEARTBEAT).stat().st_mtime
    except OSError:
        return ProcessStatus("supervisor", "", "", record.pid, "starting", "starts", log)
    if silent > _HEARTBEAT_TIMEOUT:
        return ProcessStatus("supervisor", "", "", record.pid, "unhealthy", f"no heartbeat for {silent:.0f} s", log)
    return ProcessStatus("supervisor", "", "", record.pid, "healthy", "", log)


def _replica(folder: ClusterFolder, state: ClusterState, replica: _Replica) -> ProcessStatus:
    host_program, record = HOST_PROGRAMS[replica.program], replica.record
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
    probe = host_program.health(RunContext(Path(), "", Path(), Path(), ports, host=state.addresses.host))
    serving_port = host_program.serving_port
    listening_ports = (ports[serving_port], state.ports[serving_port]) if serving_port else ()
    return _process(state, replica.name, log, record, probe, listening_ports)


def _process(
    state: ClusterState,
    name: str,
    log: Path,
    record: ProcessRecord,
    probe: Probe,
    listening_ports: tuple[int, ...] = (),
) -> ProcessStatus:
    pinned = state.programs.get(name)
    version = record.version or (pinned.version if pinned else "")
    if alive(record):
        why = check_health(probe, *listening_ports)
        if why is None:
            return ProcessStatus(name, version, record.address, record.pid, "healthy", "", log)
        return ProcessStatus(
            name, version, record.address, record.pid, "unhealthy", f"{why}; log: {last_error_line(log)}", log
        )
    if record.waiting == "stopped":
        return ProcessStatus(name, version, record.address, None, "stopped", "stopped", log)
    detail = record.waiting or (f"pid {record.pid} has exited: {last_error_line(log)}" if record.pid else "not running")
    return ProcessStatus(name, version, record.address, None, "unhealthy", detail, log)
