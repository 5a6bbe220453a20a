"""Recovery of a stack after a killed run: stale locks and pending operations."""

from __future__ import annotations

import contextlib
import datetime
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
from trainyard.local.cluster.environment import user_name

_COMPRESSED = (".gz", ".zst")

_ATTRIBUTES: Final = ".attrs"

_PLUGINS = ("pulumi-resource-", "pulumi-analyzer-")

_STARTED: Final = "processStarted"
"""Field of a lock of `drop_pending_operations`: when the process started, in seconds since 1970."""

_CLIENT: Final = "--client="
"""Option of a run that calls its program, with the program's address."""

_CONNECT_SECONDS = 5.0

_GRACE = 30.0
"""Seconds that Pulumi has to finish running operations and to write its state."""


def backend_folder(url: str) -> Path | None:
    """Return the folder of a file backend; None for other backends."""
    parts = urlsplit(url)
    if parts.scheme != "file":
        return None
    return Path(unquote(parts.netloc + parts.path)).expanduser()


def state_file(folder: Path, project: str, stack: str) -> Path:
    """Return the state file of a stack in the folder of a file backend; compressed states have another name."""
    return folder / ".pulumi" / "stacks" / project / f"{stack}.json"


def compressed_state(folder: Path, project: str, stack: str) -> bool:
    """Return whether a file backend has a compressed state of a stack (`PULUMI_DIY_BACKEND_GZIP` or `_ZSTD`)."""
    file = state_file(folder, project, stack)
    return any(file.with_name(file.name + suffix).is_file() for suffix in _COMPRESSED)


def has_former_layout(folder: Path, stack: str) -> bool:
    """Return whether a file backend has a state of this name from before states were divided by project."""
    file = folder / ".pulumi" / "stacks" / f"{stack}.json"
    return any(file.with_name(file.name + suffix).is_file() for suffix in ("", *_COMPRESSED))


def interruption(folder: Path, project: str, stack: str) -> Path:
    """Return the file that exists from the recovery of a killed run until its state equals the cluster again.

    Without it, the next run could not tell: the lock of the killed one is gone.
    """
    return folder / ".pulumi" / "interrupted" / project / stack


def recover(folder: Path, project: str, stack: str, *, private: bool) -> bool:
    """Release the lock of a killed run, and in a private backend drop its pending operations; return if it had a lock.

    In every file backend, what keeps its state and locks from being read is removed first. Parameters are as for
    `release_stale_lock`.

    Raises
    ------
    TrainyardError
        Another run holds the stack, or may hold it.
    """
    remove_incomplete_attributes(folder, project, stack)
    released = release_stale_lock(folder, project, stack, private=private)
    if private:
        drop_pending_operations(folder, project, stack)
    return bool(released)


def remove_incomplete_attributes(folder: Path, project: str, stack: str) -> None:
    """Remove files of attributes that a killed run has written in part.

    Beside each state and lock Pulumi keeps a file of attributes (content type and digest). It is not replaced
    atomically, and with half of one neither `pulumi up` nor `pulumi cancel` works ("failed to load checkpoint: EOF"):
    gocloud.dev ``blob/fileblob/attrs.go``. Nothing is lost without it, also if another run writes it at this moment.
    """
    root = folder / ".pulumi"
    states = f"stacks/{project}/{stack}.json*{_ATTRIBUTES}"
    patterns = states, f"locks/**/{project}/{stack}/*{_ATTRIBUTES}", f"meta.yaml{_ATTRIBUTES}"
    for file in (file for pattern in patterns for file in root.glob(pattern)):
        try:
            complete = isinstance(json.loads(file.read_bytes()), dict)
        except FileNotFoundError:
            continue
        except ValueError:
            complete = False
        if not complete:
            file.unlink(missing_ok=True)


def release_stale_lock(folder: Path, project: str, stack: str, *, private: bool) -> int:
    """Remove the locks of processes that have exited, and stop processes whose command was killed.

    In a backend that others may use, no lock is removed: a host name is also that of containers, whose processes have
    other ids. A lock that cannot be read is never removed.

    Parameters
    ----------
    folder
        Folder of the file backend.
    project, stack
        The stack.
    private
        Whether the backend is that of an embedded or kind cluster, in the user's folder on this machine.

    Returns
    -------
    int
        Number of locks removed.

    Raises
    ------
    TrainyardError
        A running process or another machine may hold the lock.
    """
    removed = 0
    for lock in sorted((folder / ".pulumi" / "locks").rglob("*.json")):
        if lock.parent.name != stack or lock.parent.parent.name != project:
            continue
        owner = _owner(lock, stack)
        if owner is None:
            continue
        pid, host = owner["pid"], owner["hostname"]
        if host != socket.gethostname():
            raise TrainyardError(
                f"Another run on {host} (process {pid}, since {owner.get('timestamp')}) holds the stack {stack}",
                fix="wait for it, or run `pulumi cancel` if it no longer runs",
            )
        held = f"Another run (process {pid}, since {owner.get('timestamp')}) holds the stack {stack}"
        if _holds(pid, owner):
            if not private or not _stop_orphan(pid):
                raise TrainyardError(held, fix="wait until it has finished, or stop it")
        elif not private:
            if not lock.exists():
                continue
            raise TrainyardError(
                f"{held}, and no such process is found here",
                fix="wait until it has finished if it runs in a container; run `pulumi cancel` if it was killed",
            )
        _mark(folder, project, stack)
        lock.unlink(missing_ok=True)
        removed += 1
    if removed:
        _kill_orphaned_plugins(folder)
    return removed


def _owner(lock: Path, stack: str) -> dict[str, Any] | None:
    """Return the content of a lock; None if it was released meanwhile."""
    try:
        owner = json.loads(lock.read_text())
        if isinstance(owner, dict) and isinstance(owner.get("pid"), int) and isinstance(owner.get("hostname"), str):
            return owner
        reason = "it has no process id and host name"
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        reason = str(error)
    raise TrainyardError(
        f"A lock of stack {stack} cannot be read, so it is unknown whether a run holds it ({lock}): {reason}",
        fix="wait until every run of the stack has finished, then run `pulumi cancel`",
    )


def drop_pending_operations(folder: Path, project: str, stack: str) -> list[str]:
    """Drop the pending operations of a killed run from the state in a file backend; return the URNs of their resources.

    This is safe: the state is updated from the cluster before the next run, which imports an object that was already
    created (it carries this stack's label). The state is edited in place under a lock that Pulumi honors, so that
    no other run begins meanwhile, and the file is kept as a backup, as Pulumi does. In backends that others may use,
    and where the state is compressed, Pulumi itself drops them in the refresh before the next run.

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
    owner = {"pid": process.pid, "username": user_name(), "hostname": socket.gethostname(), "timestamp": now}
    # Every file in the folder is a lock, so it is written elsewhere first: nobody reads half of it.
    draft = folder / ".pulumi" / f"{own.stem}.tmp"
    draft.write_text(json.dumps({**owner, _STARTED: process.create_time()}))
    draft.replace(own)
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
        if not _is_orphan(process):
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


def _is_orphan(process: psutil.Process) -> bool:
    """Return whether a run of the Automation API has lost the program that started it.

    A run that calls the program has its address; of another one the parent is init, or the user's systemd.
    """
    arguments = process.cmdline()
    if "auto.inline" not in arguments:
        return False
    for argument in arguments:
        if argument.startswith(_CLIENT):
            host, _, port = argument.removeprefix(_CLIENT).rpartition(":")
            try:
                socket.create_connection((host, int(port)), _CONNECT_SECONDS).close()
            except ConnectionRefusedError:
                return True
            except (OSError, ValueError):
                return False
            return False
    parent = process.parent()
    return parent is None or parent.pid == 1 or parent.name() == "systemd"


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
