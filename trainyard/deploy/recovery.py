"""Recovery of a stack after a killed run: stale locks and pending operations."""

from __future__ import annotations

import contextlib
import json
import signal
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import psutil

from trainyard.problem import TrainyardError

if TYPE_CHECKING:
    from pulumi.automation import Stack

_PLUGINS = ("pulumi-resource-", "pulumi-analyzer-")

_GRACE = 30.0
"""Seconds in which Pulumi may end what it has begun and write its state."""

__all__ = ["backend_folder", "forget_pending_operations", "release_stale_lock"]


def backend_folder(url: str) -> Path | None:
    """Return the folder of a file backend, None for any other backend."""
    parts = urlsplit(url)
    if parts.scheme != "file":
        return None
    return Path(unquote(parts.netloc + parts.path)).expanduser()


def release_stale_lock(folder: Path, project: str, stack: str) -> int:
    """Remove the locks of processes that are gone, and end those whose command is.

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
        A process that lives holds the lock, or one of another machine does.
    """
    removed = 0
    for lock in sorted((folder / ".pulumi" / "locks").rglob("*.json")):
        if lock.parent.name != stack or lock.parent.parent.name != project:
            continue
        try:
            holder: dict[str, Any] = json.loads(lock.read_text())
        except (OSError, ValueError):
            holder = {}
        pid, host = holder.get("pid"), holder.get("hostname")
        if host not in (None, socket.gethostname()):
            raise TrainyardError(
                f"Another run on {host} (process {pid}, since {holder.get('timestamp')}) holds the stack {stack}",
                fix="wait for it, or run `pulumi cancel` when it is certain that it is gone",
            )
        if isinstance(pid, int) and _runs_pulumi(pid) and not _ended_orphan(pid):
            raise TrainyardError(
                f"Another run (process {pid}, since {holder.get('timestamp')}) holds the stack {stack}",
                fix="wait for it to end, or stop it",
            )
        lock.unlink(missing_ok=True)
        removed += 1
    if removed:
        _end_plugins(folder)
    return removed


def forget_pending_operations(stack: Stack, folder: Path | None = None) -> list[str]:
    """Drop the operations that a killed run left open from the state, and return the resources they were about.

    That is safe here: the next run creates, updates or deletes these objects again, and the provider takes an object
    that is already there (this stack's label is on it) for created.

    Parameters
    ----------
    stack
        The opened stack.
    folder
        Folder of a file backend, where a look at the state is cheaper than asking the CLI for it.
    """
    from pulumi.automation import Deployment

    if folder is not None and not _pending(folder / ".pulumi" / "stacks", stack.name):
        return []
    exported = stack.export_stack()
    body = dict(exported.deployment or {})
    pending = body.get("pending_operations") or []
    if not pending:
        return []
    body["pending_operations"] = []
    stack.import_stack(Deployment(version=exported.version, deployment=body))
    return [str(operation.get("resource", {}).get("urn", "")) for operation in pending]


def _pending(folder: Path, stack: str) -> bool:
    return any('"pending_operations"' in path.read_text() for path in folder.rglob(f"{stack}.json"))


def _ended_orphan(pid: int) -> bool:
    """End a run whose own command was killed; its program is gone, so it cannot finish."""
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


def _end_plugins(folder: Path) -> None:
    """End the providers and analyzers of runs that were killed: they work for nobody, and nothing else ends them.

    They are known by the backend in their environment and by their parent, which is not Pulumi any more.
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


def _runs_pulumi(pid: int) -> bool:
    try:
        return "pulumi" in psutil.Process(pid).name()
    except psutil.Error:
        return False
