"""Removal of all that the nodes of a cluster have on this machine, also after an interrupted command."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from trainyard.errors import TrainyardError
from trainyard.local.cluster.folders import ClusterFolder
from trainyard.local.cluster.node.control_groups import hierarchies, kill, remove
from trainyard.local.cluster.node.network import disconnect, namespaces
from trainyard.local.cluster.node.node_plan import NAMESPACE_FOLDER, NodePlan, control_group, machine_name
from trainyard.local.cluster.node.node_processes import RELAY
from trainyard.local.cluster.process import alive, read_record, stop
from trainyard.progress import Step

_PATIENCE = 10.0
_MACHINE = (Path("/proc/self/ns/net"), Path("/proc/1/ns/net"))
"""Network namespaces that never are those of a node."""

Identity = tuple[int, int]


def stop_nodes(folder: ClusterFolder, step: Step | None = None) -> int:
    """Stop the nodes of a cluster as a power cut does, remove what they have on this machine; return their number.

    Parameters
    ----------
    folder
        Folder of the cluster.
    step
        Shows what is stopped.

    Raises
    ------
    TrainyardError
        A process does not end, or this user may not stop them.
    """
    running = 0
    names = sorted(path.stem for path in folder.processes.glob("node-*.json"))
    try:
        for name in ("supervisor", *names, RELAY):
            record = read_record(folder.processes, name)
            if record is None or not alive(record):
                continue
            if step is not None:
                step.update(f"stopping {name}")
            stop(record, request=signal.SIGKILL if name in names else signal.SIGTERM)
            running += 1
        clean_up(machine_name(folder.root))
    except PermissionError as error:
        raise TrainyardError(
            f"This user may not stop the nodes of cluster {folder.name}: {error}", fix="run the command as root"
        ) from error
    for name in (*names, RELAY):
        (folder.processes / f"{name}.json").unlink(missing_ok=True)
    return running


def clean_up(cluster: str) -> int:
    """Kill the processes of a cluster's nodes, and remove their namespaces and cgroups; return how many were removed.

    Processes are found by their cgroup and by their network namespace, not by records: those of a killed command have
    none. Mounts are in the mount namespaces of the processes and end with them, as do the network namespaces of pods.

    Parameters
    ----------
    cluster
        Name of the cluster on this machine.

    Raises
    ------
    TrainyardError
        A process does not end, or a name is that of the machine's own network namespace.
    PermissionError
        This user may not do it.
    """
    names = namespaces(cluster)
    _kill(names)
    found = hierarchies()
    path = control_group(cluster)
    groups = [folder for each in found if (folder := each.root / path.lstrip("/")).is_dir()]
    remove(path, found)
    if names and os.geteuid() != 0:
        raise PermissionError(f"{NAMESPACE_FOLDER / names[0]} belongs to root")
    disconnect(names)
    return len(names) + len(groups)


def clean_up_node(node: NodePlan) -> None:
    """Kill what one node has left whose first process has ended, so that it can be started again beside the others.

    Raises
    ------
    TrainyardError
        A process does not end.
    """
    _kill([node.namespace])
    remove(node.cgroup, hierarchies())


def processes_in(names: Iterable[str]) -> set[int]:
    """Return the ids of the processes with a thread in one of these network namespaces.

    Raises
    ------
    TrainyardError
        One is that of this process or of the machine's first process.
    """
    wanted = _identities(names)
    found = {
        int(folder.name)
        for folder in Path("/proc").iterdir()
        if folder.name.isdigit() and not wanted.isdisjoint(_of_process(folder))
    }
    return found - {os.getpid()}


def _identities(names: Iterable[str]) -> set[Identity]:
    """Return what distinguishes the namespaces of these names."""
    own = {_identity(file) for file in _MACHINE}
    found = set()
    for name in names:
        identity = _identity(NAMESPACE_FOLDER / name)
        if identity is None:
            continue
        if identity in own:
            raise TrainyardError(
                f"{NAMESPACE_FOLDER / name} is the network namespace of this machine, not that of a node",
                fix=f"remove the name with `ip netns delete {name}`, then run `trainyard cluster down` again",
            )
        found.add(identity)
    return found


def _of_process(folder: Path) -> Iterator[Identity | None]:
    """Return the namespaces of the threads of a process: that of the relay has one in the nodes' network."""
    with contextlib.suppress(OSError):
        for thread in (folder / "task").iterdir():
            yield _identity(thread / "ns" / "net")


def _identity(file: Path) -> Identity | None:
    """Return what distinguishes a namespace; an interrupted `ip netns add` leaves a file that is none."""
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _kill(names: Iterable[str]) -> None:
    deadline = time.monotonic() + _PATIENCE
    known = tuple(names)

    def belongs(process: Path) -> bool:
        return not _identities(known).isdisjoint(_of_process(process))

    while pids := processes_in(known):
        for pid in pids:
            kill(pid, belongs)
        if time.monotonic() > deadline:
            raise TrainyardError(
                f"Processes {', '.join(map(str, sorted(pids)))} of the nodes do not end",
                fix="see what they wait for (`cat /proc/PID/stack`), then run `trainyard cluster down` again",
            )
        time.sleep(0.05)
