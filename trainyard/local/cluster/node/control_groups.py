"""Control groups of the nodes, in each hierarchy of the machine."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from trainyard.errors import TrainyardError

_PATIENCE = 10.0
_CPUSET = ("cpuset.cpus", "cpuset.mems")


@dataclass(frozen=True)
class Hierarchy:
    """A mounted hierarchy of control groups.

    Parameters
    ----------
    root
        Mount point.
    unified
        Whether it is of version 2.
    controllers
        Names of its controllers; version 1 only.
    """

    root: Path
    unified: bool
    controllers: tuple[str, ...] = ()


def hierarchies(mounts: str | None = None) -> tuple[Hierarchy, ...]:
    """Return the hierarchies in a text of ``/proc/mounts``; by default those of this machine."""
    text = Path("/proc/self/mounts").read_text() if mounts is None else mounts
    found: dict[Path, Hierarchy] = {}
    for line in text.splitlines():
        _, folder, kind, options, *_ = line.split(" ")
        if kind == "cgroup2":
            found.setdefault(Path(folder), Hierarchy(Path(folder), True))
        elif kind == "cgroup":
            names = tuple(
                option for option in options.split(",") if option not in ("rw", "ro") and "time" not in option
            )
            found.setdefault(Path(folder), Hierarchy(Path(folder), False, names))
    return tuple(found.values())


def create(path: str, found: Iterable[Hierarchy]) -> list[Path]:
    """Create a control group in every hierarchy, and return its folders."""
    folders = []
    for hierarchy in found:
        folder = hierarchy.root
        for part in Path(path).relative_to("/").parts:
            folder = folder / part
            folder.mkdir(exist_ok=True)
            if not hierarchy.unified and "cpuset" in hierarchy.controllers:
                for file in _CPUSET:
                    # A new group has none, and no process may join it.
                    (folder / file).write_text((folder.parent / file).read_text())
        folders.append(folder)
    return folders


def kill(pid: int, belongs: Callable[[Path], bool]) -> None:
    """Kill a process, unless its id has become that of another one.

    Parameters
    ----------
    pid
        Its id.
    belongs
        Tells from a folder of ``/proc`` whether the process is the one that is meant.
    """
    with contextlib.suppress(ProcessLookupError):
        descriptor = os.pidfd_open(pid)
        try:
            # From here on the descriptor means one process, so that what is seen now is true of what is killed.
            if belongs(Path(f"/proc/{pid}")):
                signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        finally:
            os.close(descriptor)


def processes(path: str, found: Iterable[Hierarchy]) -> set[int]:
    """Return the ids of the processes in a control group and those below it."""
    pids: set[int] = set()
    for hierarchy in found:
        for file in (hierarchy.root / path.lstrip("/")).rglob("cgroup.procs"):
            with contextlib.suppress(OSError):
                pids.update(int(line) for line in file.read_text().split())
    return pids - {0, os.getpid()}


def _is_in(path: str, process: Path) -> bool:
    """Return whether a process is in a control group of that path, or below one."""
    try:
        lines = (process / "cgroup").read_text().splitlines()
    except OSError:
        return False
    return any(f"{path}/" in f"{line}/" for line in lines)


def remove(path: str, found: Iterable[Hierarchy]) -> None:
    """Kill the processes in a control group and those below it, and remove them.

    Raises
    ------
    TrainyardError
        A group cannot be removed.
    """
    known = tuple(found)
    for hierarchy in known:
        if "freezer" in hierarchy.controllers:
            for file in (hierarchy.root / path.lstrip("/")).rglob("freezer.state"):
                with contextlib.suppress(FileNotFoundError):
                    file.write_text("THAWED")  # A frozen process does not end.
    deadline = time.monotonic() + _PATIENCE
    while True:
        for pid in processes(path, known):
            kill(pid, lambda folder: _is_in(path, folder))
        busy = [folder for hierarchy in known if (folder := _removed(hierarchy.root / path.lstrip("/")))]
        if not busy:
            return
        if time.monotonic() > deadline:
            raise TrainyardError(
                f"The cgroup {busy[0]} cannot be removed: a process in it does not end",
                fix=f"see {busy[0]}/cgroup.procs, then run `trainyard cluster down` again",
            )
        time.sleep(0.05)


def _removed(root: Path) -> Path | None:
    """Remove a folder of groups; return one that is busy."""
    if not root.is_dir():
        return None
    for folder, _, _ in os.walk(root, topdown=False):
        try:
            Path(folder).rmdir()
        except OSError as error:
            if error.errno == errno.EBUSY:
                return Path(folder)
            if error.errno != errno.ENOENT:
                raise
    return None
