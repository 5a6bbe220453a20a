"""Removal of all that the nodes of a cluster have on this machine, also after an interrupted command."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterable
from pathlib import Path

from trainyard.cluster.node.control_groups import hierarchies, remove
from trainyard.cluster.node.network import disconnect, namespaces
from trainyard.cluster.node.node_plan import NAMESPACE_FOLDER
from trainyard.errors import TrainyardError

__all__ = ["clean_up", "processes_in"]

_PATIENCE = 10.0


def clean_up(cluster: str) -> int:
    """Kill the processes of a cluster's nodes, and remove their namespaces and cgroups; return how many were removed.

    Processes are found by their cgroup and by their network namespace, not by records: those of a killed command have
    none. Mounts are in the mount namespaces of the processes and end with them, as do the network namespaces of pods.

    Raises
    ------
    TrainyardError
        A process does not end.
    """
    names = namespaces(cluster)
    _kill(names)
    found = hierarchies()
    path = f"/trainyard-{cluster}"
    groups = [folder for each in found if (folder := each.root / path.lstrip("/")).is_dir()]
    remove(path, found)
    disconnect(names)
    return len(names) + len(groups)


def processes_in(names: Iterable[str]) -> set[int]:
    """Return the ids of the processes in network namespaces."""
    wanted = {identity for name in names if (identity := _identity(NAMESPACE_FOLDER / name)) is not None}
    found = {
        int(folder.name)
        for folder in Path("/proc").iterdir()
        if folder.name.isdigit() and _identity(folder / "ns" / "net") in wanted
    }
    return found - {os.getpid()}


def _identity(file: Path) -> tuple[int, int] | None:
    """Return what distinguishes a namespace; an interrupted `ip netns add` leaves a file that is none."""
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _kill(names: Iterable[str]) -> None:
    deadline = time.monotonic() + _PATIENCE
    wanted = tuple(names)
    while pids := processes_in(wanted):
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if time.monotonic() > deadline:
            raise TrainyardError(
                f"Processes {', '.join(map(str, sorted(pids)))} of the nodes do not end",
                fix="see what they wait for (`cat /proc/PID/stack`), then run `trainyard cluster down` again",
            )
        time.sleep(0.05)
