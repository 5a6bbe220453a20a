"""The command line without its start: a process that has imported it forks one process for each command.

Imports take a fifth of the CPU time of an `up` without changes, and most of that of a command that only reads. Nothing
is read or cached at import, so a command that is forked differs from a started one in nothing else.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import pkgutil
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
_PROGRAM: Final = str(ROOT / "trainyard" / "__main__.py")
_LIMIT: Final = 1 << 20
"""Bytes of the arguments and variables of a command."""


def run_forked(
    arguments: tuple[str, ...], *, env: Mapping[str, str], timeout: float
) -> subprocess.CompletedProcess[str]:
    """Run ``python -m trainyard`` in the project folder, without its start, and return what it printed."""
    command = [sys.executable, "-m", "trainyard", *arguments]
    with (
        socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection,
        tempfile.TemporaryFile() as output,
        tempfile.TemporaryFile() as errors,
        Path(os.devnull).open("rb") as nothing,
    ):
        connection.connect(_server()[0])
        body = json.dumps([arguments, dict(env)]).encode()
        socket.send_fds(connection, [body], [each.fileno() for each in (nothing, output, errors)])
        pid = int(connection.recv(32))
        connection.settimeout(timeout)
        try:
            code = int(connection.recv(32))
        except TimeoutError as error:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            raise subprocess.TimeoutExpired(command, timeout) from error
        printed = []
        for file in (output, errors):
            file.seek(0)
            printed.append(file.read().decode().replace("\r\n", "\n"))
        return subprocess.CompletedProcess(command, code, *printed)


def starts_alike(env: Mapping[str, str]) -> bool:
    """Return whether Python would start with these variables as it has started here."""
    names = {name for name in (*env, *os.environ) if name.startswith(("PYTHON", "LC_", "LANG"))}
    return all(env.get(name) == os.environ.get(name) for name in names)


@cache
def _server() -> tuple[str, subprocess.Popen[bytes]]:
    """Start the process that forks, and return its socket; it ends with this one."""
    path = str(Path(tempfile.mkdtemp(prefix="trainyard-fork-")) / "socket")
    server = subprocess.Popen(
        [sys.executable, "-m", __name__, path], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert server.stdout is not None
    assert server.stdout.readline() == b"ready\n"
    return path, server


def _serve(path: str) -> tuple[tuple[str, ...], dict[str, str]]:
    """Fork a process for each command, in which this returns its arguments and variables."""
    for package in ("trainyard.cli", "components"):
        for module in pkgutil.iter_modules(importlib.import_module(package).__path__, f"{package}."):
            importlib.import_module(module.name)
    importlib.import_module("trainyard.platform.deploy.operations")
    gc.freeze()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(path)
        listener.listen()
        os.write(sys.stdout.fileno(), b"ready\n")
        while True:
            ready, _, _ = select.select([listener, sys.stdin], [], [])
            with suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
            if sys.stdin in ready:  # its end: the tests are over
                shutil.rmtree(Path(path).parent)
                os._exit(0)
            connection, _ = listener.accept()
            if not os.fork():
                break
            connection.close()
    with connection:
        message, descriptors, *_ = socket.recv_fds(connection, _LIMIT, 3)
        if child := os.fork():
            connection.send(str(child).encode())
            status = os.waitpid(child, 0)[1]
            with suppress(BrokenPipeError):
                connection.send(str(os.waitstatus_to_exitcode(status)).encode())
            os._exit(0)
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)
    arguments, env = json.loads(message)
    return tuple(arguments), env


if __name__ == "__main__":
    given, variables = _serve(sys.argv[1])
    sys.argv = [_PROGRAM, *given]
    os.environ.clear()
    os.environ.update(variables)
    __package__ = "trainyard"  # the usage names it
    from trainyard.cli import main

    main()
