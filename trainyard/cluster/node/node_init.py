"""First process of a node, started by its path inside the node's namespaces; standard library only.

Its argument is a JSON file with the node's name, folder, control groups and programs. It gives the node its own
``/run``, ``/tmp``, ``/var/lib`` and ``/var/log``, starts the programs in order, restarts those that end, and reaps
orphans. The node ends with it: the kernel kills every process of its process namespace.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

_STARTUP_PATIENCE = 30.0
_RESTART_SECONDS = 1.0
_POLL_SECONDS = 0.05


def _mount(*arguments: str, keep: int | None = None) -> None:
    subprocess.run(["mount", *arguments], check=True, pass_fds=() if keep is None else (keep,))  # noqa: S603, S607


def _own_files(folder: str, node: str) -> None:
    """Bind the node's folders over those of the machine, which must see no file of the node and give it none."""
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    # Held until the node ends: two containerds on the same files would damage them.
    lock = os.open(f"{folder}/lock", os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    _mount("--make-rprivate", "/")
    for path in ("/run", "/tmp"):  # noqa: S108
        _mount("-t", "tmpfs", "-o", "mode=1777" if path == "/tmp" else "mode=755", "node", path)  # noqa: S108
    own = Path("/run/node")
    own.mkdir()
    # The folder may be below one of the paths that are covered now, so it is named by its descriptor.
    _mount("--bind", f"/proc/self/fd/{opened}", str(own), keep=opened)
    for name, path in (("lib", "/var/lib"), ("log", "/var/log")):
        _mount("--bind", str(own / name), path)
    _mount("--make-rshared", "/")
    os.close(opened)
    socket.sethostname(node)


def _join(folders: list[str]) -> None:
    for folder in folders:
        (Path(folder) / "cgroup.procs").write_text("0")


def _await(path: str) -> None:
    deadline = time.monotonic() + _STARTUP_PATIENCE
    while not Path(path).exists() and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)


def _start(program: dict[str, Any]) -> int:
    with open(program["log"], "ab") as log:  # noqa: PTH123
        process = subprocess.Popen(program["command"], stdin=subprocess.DEVNULL, stdout=log, stderr=log)  # noqa: S603
    return process.pid


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
            sys.stderr.write(f"{ended['name']} ended with status {os.waitstatus_to_exitcode(status)}\n")
            sys.stderr.flush()
            time.sleep(_RESTART_SECONDS)
            running[_start(ended)] = ended


def main(file: str) -> None:
    """Run a node until it is killed."""
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    node = json.loads(Path(file).read_text())
    _join(node["cgroups"])
    _own_files(node["folder"], node["name"])
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
    _supervise(node["programs"])


if __name__ == "__main__":
    main(sys.argv[1])
