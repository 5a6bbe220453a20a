"""Recovery of a stack after a killed run: stale locks and pending operations."""

from __future__ import annotations

import contextlib
import datetime
import getpass
import json
import os
import signal
import socket
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import psutil

from trainyard.errors import TrainyardError

_PLUGINS = ("pulumi-resource-", "pulumi-analyzer-")

_STARTED: Final = "processStarted"
"""Field of a lock of `drop_pending_operations`: when the process started, in seconds since 1970."""

_GRACE = 30.0
"""Seconds that Pulumi has to finish running operations and to write its state."""

__all__ = [
    "backend_folder",
    "drop_pending_operations",
    "interruption",
    "release_stale_lock",
    "state_file",
]


def backend_folder(url: str) -> Path | None:
    """Return the folder of a file backend; None for other backends."""
    parts = urlsplit(url)
    if parts.scheme != "file":
        return None
    return Path(unquote(parts.netloc + parts.path)).expanduser()


def state_file(folder: Path, project: str, stack: str) -> Path:
    """Return the state file of a stack in the folder of a file backend; compressed states have another name."""
    return folder / ".pulumi" / "stacks" / project / f"{stack}.json"


def interruption(folder: Path, project: str, stack: str) -> Path:
    """Return the file that exists from the recovery of a killed run until its state equals the cluster again.

    Without it, the next run could not tell: the lock of the killed one is gone.
    """
    return folder / ".pulumi" / "interrupted" / project / stack


def release_stale_lock(folder: Path, project: str, stack: str) -> int:
    """Remove the locks of processes that have exited, and stop processes whose command was killed.

    Parameters
    ----------
    folder
        Folder of the file backend.
    project, stack
        The stack.

    Returns
    -------
    int
        Number of locks removed.

    Raises
    ------
    TrainyardError
        A running process or another machine holds the lock.
    """
    removed = 0
    for lock in sorted((folder / ".pulumi" / "locks").rglob("*.json")):
        if lock.parent.name != stack or lock.parent.parent.name != project:
            continue
        try:
            owner: dict[str, Any] = json.loads(lock.read_text())
        except (OSError, ValueError):
            owner = {}
        pid, host = owner.get("pid"), owner.get("hostname")
        if host not in (None, socket.gethostname()):
            raise TrainyardError(
                f"Another run on {host} (process {pid}, since {owner.get('timestamp')}) holds the stack {stack}",
                fix="wait for it, or run `pulumi cancel` if it no longer runs",
            )
        if isinstance(pid, int) and _holds(pid, owner) and not _stop_orphan(pid):
            raise TrainyardError(
                f"Another run (process {pid}, since {owner.get('timestamp')}) holds the stack {stack}",
                fix="wait until it has finished, or stop it",
            )
        _mark(folder, project, stack)
        lock.unlink(missing_ok=True)
        removed += 1
    if removed:
        _kill_orphaned_plugins(folder)
    return removed


def drop_pending_operations(folder: Path, project: str, stack: str) -> list[str]:
    """Drop the pending operations of a killed run from the state in a file backend; return the URNs of their resources.

    This is safe: the state is updated from the cluster before the next run, which imports an object that was already
    created (it carries this stack's label). The state is edited in place under a lock that Pulumi honors, so that
    no other run begins meanwhile, and the file is kept as a backup, as Pulumi does. In other backends, and where the
    state is compressed, Pulumi itself drops them in the refresh before the next run.

    Parameters
    ----------
    folder
        Folder of the file backend.
    project, stack
        The stack.

    Raises
    ------
    TrainyardError
        Another run holds the stack.
    """
    state = state_file(folder, project, stack)
    if not state.is_file() or b'"pending_operations"' not in state.read_bytes():
        return []
    with _locked(folder, project, stack):
        content = state.read_text()
        body = json.loads(content)
        deployment = body["checkpoint"]["latest"] or {}
        pending = deployment.pop("pending_operations", None) or []
        if pending:
            _mark(folder, project, stack)
            state.with_suffix(".json.bak").write_text(content)
            edited = state.with_suffix(f".{os.getpid()}.tmp")
            edited.write_text(json.dumps(body, indent=4, ensure_ascii=False))
            edited.replace(state)
    return [str(operation.get("resource", {}).get("urn", "")) for operation in pending]


def _mark(folder: Path, project: str, stack: str) -> None:
    file = interruption(folder, project, stack)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.touch()


@contextlib.contextmanager
def _locked(folder: Path, project: str, stack: str) -> Iterator[None]:
    """Hold the lock of a stack; other locks are checked after it is written, as Pulumi does."""
    locks = folder / ".pulumi" / "locks" / "organization" / project / stack
    locks.mkdir(parents=True, exist_ok=True)
    own = locks / f"{uuid.uuid4()}.json"
    process = psutil.Process()
    now = datetime.datetime.now(datetime.UTC).isoformat()
    owner = {"pid": process.pid, "username": getpass.getuser(), "hostname": socket.gethostname(), "timestamp": now}
    own.write_text(json.dumps({**owner, _STARTED: process.create_time()}))
    try:
        if others := [path for path in locks.glob("*.json") if path != own]:
            raise TrainyardError(
                f"Another run holds the stack {stack} ({others[0]})", fix="wait until it has finished, or stop it"
            )
        yield
    finally:
        own.unlink(missing_ok=True)


def _stop_orphan(pid: int) -> bool:
    """Stop a run whose command was killed: without its program it cannot finish."""
    try:
        process = psutil.Process(pid)
        arguments, parent = process.cmdline(), process.parent()
        if "auto.inline" not in arguments or (parent is not None and "trainyard" in " ".join(parent.cmdline())):
            return False
        process.send_signal(signal.SIGINT)
        try:
            process.wait(_GRACE)
        except psutil.TimeoutExpired:
            process.kill()
    except psutil.NoSuchProcess:
        return True
    except psutil.Error:
        return False
    return True


def _kill_orphaned_plugins(folder: Path) -> None:
    """Kill orphaned providers and analyzers of killed runs, which would run on.

    They are identified by the backend in their environment and by a parent process other than Pulumi.
    """
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if not Path((process.cmdline() or [""])[0]).name.startswith(_PLUGINS):
                continue
            parent = process.parent()
            if parent is not None and "pulumi" in parent.name():
                continue
            if backend_folder(process.environ().get("PULUMI_BACKEND_URL", "")) == folder:
                process.kill()


def _holds(pid: int, owner: Mapping[str, Any]) -> bool:
    """Return whether the process that wrote a lock still runs: Pulumi, or an edit of the state."""
    try:
        process = psutil.Process(pid)
        return "pulumi" in process.name() if _STARTED not in owner else process.create_time() == owner[_STARTED]
    except psutil.Error:
        return False
