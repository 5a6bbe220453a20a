"""Looks at the processes of an embedded control plane: records, pids, health endpoints, logs."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from trainyard.cluster.base import ClusterStatus, ProcessStatus
from trainyard.cluster.controlplane import CONTROL_PLANE_PROGRAMS, control_plane
from trainyard.cluster.files import ClusterFolder
from trainyard.cluster.health import Probe, answers
from trainyard.cluster.process import HEARTBEAT, NOT_INSTALLED, ProcessRecord, alive, read_record, telling_line
from trainyard.cluster.state import ClusterState, load_state
from trainyard.cluster.supervisor.recipes import RECIPES, RunContext

__all__ = ["inspect", "process_names"]

_SILENT = 60.0
"""Seconds without a heartbeat after which the supervisor hangs."""


def process_names() -> tuple[str, ...]:
    """Return the supervised processes in the order they start."""
    return (*CONTROL_PLANE_PROGRAMS, *RECIPES)


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
    probes: dict[str, tuple[Probe, int | None]] = {
        process.spec.name: (process.probe, None) for process in control_plane(folder, state)
    }
    for name, recipe in RECIPES.items():
        context = RunContext(Path(), "", Path(), Path(), state.ports)
        probes[name] = (recipe.health(context), state.ports[recipe.listens] if recipe.listens else None)
    with ThreadPoolExecutor(max_workers=len(probes)) as pool:
        found = pool.map(lambda name: _process(folder, state, name, *probes[name]), process_names())
    return ClusterStatus(folder.name, folder.kubeconfig, (_supervisor(folder), *found))


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


def _process(folder: ClusterFolder, state: ClusterState, name: str, probe: Probe, port: int | None) -> ProcessStatus:
    record = read_record(folder.processes, name) or ProcessRecord(name)
    pinned = state.programs.get(name)
    version = record.version or (pinned.version if pinned else "")
    log = folder.log(name)
    if alive(record):
        why = answers(probe, port)
        if why is None:
            return ProcessStatus(name, version, record.address, record.pid, "healthy", "", log)
        return ProcessStatus(
            name, version, record.address, record.pid, "unhealthy", f"{why}; its log says: {telling_line(log)}", log
        )
    if name in RECIPES and record.waiting in ("", NOT_INSTALLED) and record.pid is None:
        return ProcessStatus(name, version, "", None, "not installed", "", None)
    if record.waiting == "stopped":
        return ProcessStatus(name, version, record.address, None, "stopped", "stopped", log)
    if record.waiting.startswith("scaled to 0"):
        return ProcessStatus(name, version, "", None, "not installed", record.waiting, log)
    detail = record.waiting or (f"pid {record.pid} is gone: {telling_line(log)}" if record.pid else "does not run")
    return ProcessStatus(name, version, record.address, None, "unhealthy", detail, log)
