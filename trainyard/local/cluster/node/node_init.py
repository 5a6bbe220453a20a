"""First process of a node, started by its path inside the node's namespaces; standard library only.

Its argument is a JSON file with the node's name, folder, control groups and programs. It gives the node its own
``/run``, ``/tmp``, ``/var/lib`` and ``/var/log`` and makes the other files of the machine read-only. It starts the
programs in order, restarts those that end, and reaps orphans. The node ends with it: the kernel kills every process of
its process namespace.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

_STARTUP_PATIENCE = 30.0
_RESTART_SECONDS = 1.0
_POLL_SECONDS = 0.05
_ROTATION_SECONDS = 30.0
_LOG_LIMIT = 32 << 20

_READ_ONLY, _REMOUNT, _BIND, _RECURSIVE, _PRIVATE, _SHARED = 1, 1 << 5, 1 << 12, 1 << 14, 1 << 18, 1 << 20
_FLAGS = {"ro": 1, "nosuid": 2, "nodev": 4, "noexec": 8, "noatime": 1 << 10, "nodiratime": 1 << 11, "relatime": 1 << 21}
"""Numbers of mount(2) by option of a mount."""
_IN_MEMORY = {"/run": "mode=755", "/tmp": "mode=1777", "/dev/shm": "mode=1777"}  # noqa: S108
_OWN = ("/proc", "/sys/fs/cgroup", "/var/lib", "/var/log", *_IN_MEMORY)
"""Paths that the node may write; all but the control groups are its own."""
_KERNEL = {
    "vm/overcommit_memory": "1",
    "vm/panic_on_oom": "0",
    "kernel/panic": "10",
    "kernel/panic_on_oops": "1",
    "kernel/keys/root_maxkeys": "1000000",
    "kernel/keys/root_maxbytes": "25000000",
}
"""What a kubelet sets for the whole machine where it finds other values (setupKernelTunables)."""
_NETWORK = {
    "ip_forward": "1",
    # Drops packets of a pod with the address of another one, which a NetworkPolicy may allow.
    "conf/all/rp_filter": "1",
}
"""Of the node's network namespace."""
_FOLDER, _PROGRAMS = Path("/run/node"), Path("/run/programs")


def _mount(source: str | None, target: str, kind: str | None = None, flags: int = 0, data: str | None = None) -> None:
    library = ctypes.CDLL(None, use_errno=True)
    texts = [None if text is None else text.encode() for text in (source, target, kind, data)]
    if library.mount(texts[0], texts[1], texts[2], ctypes.c_ulong(flags), texts[3]):
        number = ctypes.get_errno()
        raise OSError(number, f"mount {target}: {os.strerror(number)}")


def _own_files(node: Mapping[str, Any]) -> None:
    """Give the node folders of its own; of the machine's files it can change none, and sees none of the cluster's."""
    # They may be below one of the paths that are covered now, so they are named by their descriptors.
    opened = os.open(node["folder"], os.O_RDONLY | os.O_DIRECTORY)
    programs = {name: os.open(path, os.O_PATH) for name, path in node["files"].items()}
    _mount(None, "/", flags=_RECURSIVE | _PRIVATE)
    hidden = Path(node["hidden"])
    if hidden.is_dir():
        _mount("node", str(hidden), "tmpfs", data="mode=755")
    for path, mode in _IN_MEMORY.items():
        if Path(path).is_dir():
            _mount("node", path, "tmpfs", data=mode)
    _FOLDER.mkdir()
    _mount(f"/proc/self/fd/{opened}", str(_FOLDER), flags=_BIND)
    # Held until the node ends: two containerds on the same files would damage them.
    lock = os.open(_FOLDER / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    for name, path in (("lib", "/var/lib"), ("log", "/var/log")):
        _mount(str(_FOLDER / name), path, flags=_BIND)
    _PROGRAMS.mkdir()
    for name, descriptor in programs.items():
        (_PROGRAMS / name).touch()
        _mount(f"/proc/self/fd/{descriptor}", str(_PROGRAMS / name), flags=_BIND)
        os.close(descriptor)
    _keep_kernel_settings()
    _make_read_only(Path("/proc/self/mountinfo").read_text())
    _mount(None, "/", flags=_RECURSIVE | _SHARED)
    os.close(opened)
    socket.sethostname(node["name"])


def _keep_kernel_settings() -> None:
    """Show the kubelet the values that it wants, so that it does not change those of the machine."""
    for name, value in _KERNEL.items():
        shown = Path("/run/kernel") / name
        shown.parent.mkdir(parents=True, exist_ok=True)
        shown.write_text(f"{value}\n")
        if (setting := Path("/proc/sys") / name).exists():
            _mount(str(shown), str(setting), flags=_BIND)


def _make_read_only(mounts: str) -> None:
    """Make all mounts read-only that are not the node's own."""
    for line in mounts.splitlines():
        fields = line.split(" ")
        path = fields[4].encode("latin-1").decode("unicode_escape").encode("latin-1").decode()
        if any(path == own or path.startswith(f"{own}/") for own in _OWN):
            continue
        flags = sum(_FLAGS.get(option, 0) for option in fields[5].split(",") if option != "ro")
        try:
            _mount(None, path, flags=_REMOUNT | _BIND | _READ_ONLY | flags)
        except OSError as error:
            # Another mount covers this one: it cannot be reached by its path, neither here nor from the node.
            if error.errno not in (errno.EINVAL, errno.ENOENT):
                raise


def _join(folders: list[str]) -> None:
    for folder in folders:
        (Path(folder) / "cgroup.procs").write_text("0")


def _await(path: str) -> None:
    deadline = time.monotonic() + _STARTUP_PATIENCE
    while not Path(path).exists() and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)


def _say(text: str) -> None:
    """Log a line; a full disk is no reason to end the node."""
    with contextlib.suppress(OSError):
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()


def _start(program: dict[str, Any]) -> int:
    """Start a program, and return its id; one that cannot be started now is tried again."""
    while True:
        try:
            with open(program["log"], "ab") as log:  # noqa: PTH123
                command = program["command"]
                process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)  # noqa: S603
            # Only `os.wait` reaps it: the next process object would otherwise, and its end would not be noticed.
            process.returncode = 0
            return process.pid
        except OSError as error:
            _say(f"{program['name']} cannot be started: {error}")
            time.sleep(_RESTART_SECONDS)


def _supervise(programs: list[dict[str, Any]]) -> None:
    running: dict[int, dict[str, Any]] = {}
    for program in programs:
        if after := program.get("after"):
            _await(after)
        running[_start(program)] = program
    while True:
        pid, status = os.wait()
        ended = running.pop(pid, None)
        if ended is not None:
            _say(f"{ended['name']} ended with status {os.waitstatus_to_exitcode(status)}")
            time.sleep(_RESTART_SECONDS)
            running[_start(ended)] = ended


def _rotate(logs: Iterable[str]) -> None:
    """Move what large logs contain to another file; programs append, so they go on at the new end."""
    for log in logs:
        with contextlib.suppress(OSError):
            if Path(log).stat().st_size > _LOG_LIMIT:
                with contextlib.suppress(OSError):
                    shutil.copyfile(log, f"{log}.1")
                os.truncate(log, 0)


def _rotate_always(logs: list[str]) -> None:
    while True:
        time.sleep(_ROTATION_SECONDS)
        _rotate(logs)


def main(file: str) -> None:
    """Run a node until it is killed."""
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    node = json.loads(Path(file).read_text())
    _join(node["cgroups"])
    _own_files(node)
    for name, value in _NETWORK.items():
        (Path("/proc/sys/net/ipv4") / name).write_text(value)
    logs = [program["log"] for program in node["programs"]]
    threading.Thread(target=_rotate_always, args=(logs,), daemon=True).start()
    _supervise(node["programs"])


if __name__ == "__main__":
    main(sys.argv[1])
