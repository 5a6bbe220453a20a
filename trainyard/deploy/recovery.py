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

from trainyard.errors import TrainyardError

if TYPE_CHECKING:
    from pulumi.automation import Stack

_PLUGINS = ("pulumi-resource-", "pulumi-analyzer-")

_GRACE = 30.0
"""Seconds that Pulumi has to finish running operations and to write its state."""

__all__ = ["backend_folder", "drop_pending_operations", "release_stale_lock"]


def backend_folder(url: str) -> Path | None:
    """Return the folder of a file backend; None for other backends."""
    parts = urlsplit(url)
    if parts.scheme != "file":
        return None
    return Path(unquote(parts.netloc + parts.path)).expanduser()


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
        if isinstance(pid, int) and _runs_pulumi(pid) and not _stop_orphan(pid):
            raise TrainyardError(
                f"Another run (process {pid}, since {owner.get('timestamp')}) holds the stack {stack}",
                fix="wait until it has finished, or stop it",
            )
        lock.unlink(missing_ok=True)
        removed += 1
    if removed:
        _kill_orphaned_plugins(folder)
    return removed


def drop_pending_operations(stack: Stack, folder: Path | None = None) -> list[str]:
    """Drop the pending operations of a killed run from the state, and return the URNs of their resources.

    This is safe: the next run repeats these operations, and the provider upserts, so an object that was already created
    (it carries this stack's label) is adopted.

    Parameters
    ----------
    stack
        The opened stack.
    folder
        Folder of a file backend, in which the state can be read without the CLI.
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


def _runs_pulumi(pid: int) -> bool:
    try:
        return "pulumi" in psutil.Process(pid).name()
    except psutil.Error:
        return False
