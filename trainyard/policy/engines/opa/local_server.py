"""Local policy server on a Unix socket of the current user, with a read-only bundle."""

from __future__ import annotations

import contextlib
import os
import resource
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Final

from trainyard.errors import TrainyardError
from trainyard.policy.engines.opa.address import OpaAddress
from trainyard.policy.engines.opa.bundle import Bundle, bundle_files
from trainyard.policy.engines.opa.capabilities import CapabilityCheck, environment

SOCKET_AUTHORIZATION: Final = """package system.authz

import rego.v1

default allow := false

allow if input.path == ["health"]

allow if {
	input.method == "POST"
	input.path in [["v1", "data", "trainyard", "decision"], ["v1", "data", "trainyard", "decisions"]]
}

allow if {
	input.path == ["metrics"]
	token := opa.runtime().env.TRAINYARD_OPA_METRICS_TOKEN
	token != ""
	input.headers.Authorization == [concat(" ", ["Bearer", token])]
}
"""
"""Requests allowed on a socket that only authorized users can open: decisions only, no writes to policies or data.

The address for probes, which anyone may open, has the same rules, so metrics require the token of `METRICS_TOKEN`.
"""
METRICS_TOKEN: Final = "TRAINYARD_OPA_METRICS_TOKEN"  # noqa: S105
"""Variable with the token with which the controller reads the server's metrics; unset: all requests are rejected."""

_START_SECONDS: Final = 15.0
_PAUSE: Final = 0.005
_HEALTH: Final = b"GET /health?bundles HTTP/1.0\r\n\r\n"
_HEALTHY: Final = b"HTTP/1.0 200"
_GARBAGE: Final = "800"
"""GOGC: collect after ninefold growth, to 200 MiB; the server is short-lived, and latency matters more."""


_MEMORY: Final = 8 * 1024**3
"""Bytes of memory of the server, which no rule needs."""


class OpaServer:
    """Policy server as a context manager.

    Parameters
    ----------
    program
        Returns the ``opa`` program; called when the server starts.
    bundle
        The rules.
    """

    def __init__(self, program: Callable[[], Path], bundle: Bundle) -> None:
        self._program = program
        self._bundle = bundle
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> OpaAddress:
        """Start the server and wait until it is healthy.

        Raises
        ------
        TrainyardError
            The program is missing, or the server does not start.
        """
        program = self._program()
        self._folder = tempfile.TemporaryDirectory(prefix="trainyard-opa-")
        folder = Path(self._folder.name)
        address, authorization = folder / "opa.sock", folder / "authorization.tar.gz"
        self._bundle.write(folder / "bundle.tar.gz")
        bundle_files({"authorization.rego": SOCKET_AUTHORIZATION.encode()}, ["system/authz"]).write(authorization)
        variables = {"GOGC": _GARBAGE, **environment(os.environ)}
        log = folder / "opa.log"
        with log.open("wb") as output:
            self._process = subprocess.Popen(  # noqa: S603
                [
                    *(str(program), "run", "--server", "--addr", f"unix://{address}", "--unix-socket-perm=600"),
                    *("--disable-telemetry", "--authorization=basic", "--log-level=error"),
                    "--optimize-store-for-read-speed",
                    *("--bundle", str(folder / "bundle.tar.gz"), str(authorization)),
                ],
                stdout=output,
                stderr=subprocess.STDOUT,
                env=variables,
            )
        try:
            with contextlib.suppress(ProcessLookupError):
                resource.prlimit(self._process.pid, resource.RLIMIT_AS, (_MEMORY, _MEMORY))
            with CapabilityCheck(program, folder / "bundle.tar.gz", variables) as check:
                self._await(address, log)
                check.require()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return OpaAddress(socket=address, revision=self._bundle.revision)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop the server and remove its files."""
        if self._process:
            self._process.terminate()
            try:
                self._process.wait(5)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None
        if self._folder:
            self._folder.cleanup()
            self._folder = None

    def _await(self, address: Path, log: Path) -> None:
        assert self._process is not None  # noqa: S101
        deadline = time.monotonic() + _START_SECONDS
        while time.monotonic() < deadline and self._process.poll() is None:
            if _healthy(address):
                return
            time.sleep(_PAUSE)
        lines = log.read_text(errors="replace").strip().splitlines() or ["its log is empty"]
        # OPA prints the Rego source below an error.
        reason = next((line for line in lines if line.startswith("error: ")), lines[-1])
        raise TrainyardError(
            f"The policy server did not start: {reason}",
            fix="check the Rego of the rules with trainyard policy test",
        )


def _healthy(address: Path) -> bool:
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(1)
            connection.connect(str(address))
            connection.sendall(_HEALTH)
            return connection.recv(len(_HEALTHY)) == _HEALTHY
    except OSError:
        return False
