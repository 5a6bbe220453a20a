"""A policy server on this machine: started with a bundle that nobody can change, stopped by its process."""

from __future__ import annotations

import json
import os
import secrets
import socket
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Final

from trainyard.policy.opa.address import OpaAddress
from trainyard.policy.opa.bundle import Bundle
from trainyard.problem import TrainyardError

__all__ = ["AUTHORIZATION", "SOCKET_AUTHORIZATION", "OpaServer"]

_AUTHORIZATION: Final = """package system.authz

import rego.v1

default allow := false

allow if input.path == ["health"]

allow if {
	input.method == "POST"
	input.path in [["v1", "data", "trainyard", "decision"], ["v1", "data", "trainyard", "decisions"]]%s
}
"""

AUTHORIZATION: Final = _AUTHORIZATION % "\n\tinput.identity == data.identity.token"
"""Who may ask what: health for anyone, decisions for whoever has the token; nobody changes policies or data."""

SOCKET_AUTHORIZATION: Final = _AUTHORIZATION % ""
"""The same on a socket that only those who may ask can reach: it takes the place of the token."""

_START_SECONDS = 15.0
_GARBAGE: Final = "400"
"""Memory is collected when it has grown fivefold: the server is small and short-lived, and time counts."""


class OpaServer:
    """A server for the time of a ``with`` block.

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
        """Start the server and wait until it answers.

        Raises
        ------
        TrainyardError
            The program is missing, or the server does not come up.
        """
        program = self._program()
        self._folder = tempfile.TemporaryDirectory(prefix="trainyard-opa-")
        folder = Path(self._folder.name)
        token, port = secrets.token_urlsafe(32), _free_port()
        (folder / "token").touch(mode=0o600)
        (folder / "token").write_text(token)
        self._bundle.write(folder / "bundle.tar.gz")
        authorization = folder / "authorization"
        authorization.mkdir()
        (authorization / ".manifest").write_text(json.dumps({"roots": ["system/authz", "identity"]}))
        (authorization / "authz.rego").write_text(AUTHORIZATION)
        (authorization / "data.json").touch(mode=0o600)
        (authorization / "data.json").write_text(json.dumps({"identity": {"token": token}}))
        log = folder / "opa.log"
        with log.open("wb") as output:
            self._process = subprocess.Popen(  # noqa: S603
                [
                    *(str(program), "run", "--server", "--addr", f"127.0.0.1:{port}", "--disable-telemetry"),
                    *("--authentication=token", "--authorization=basic", "--log-level=error"),
                    "--optimize-store-for-read-speed",
                    *("--bundle", str(folder / "bundle.tar.gz"), str(authorization)),
                ],
                stdout=output,
                stderr=subprocess.STDOUT,
                env={"GOGC": _GARBAGE, **os.environ},
            )
        try:
            self._await(port, log)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return OpaAddress("127.0.0.1", port, token=folder / "token", revision=self._bundle.revision)

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

    def _await(self, port: int, log: Path) -> None:
        assert self._process is not None  # noqa: S101
        deadline = time.monotonic() + _START_SECONDS
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                break
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/health?bundles", timeout=1):
                    return
            except OSError:
                time.sleep(0.02)
        lines = log.read_text(errors="replace").strip().splitlines()
        raise TrainyardError(
            f"The policy server did not start: {lines[-1] if lines else 'it said nothing'}",
            fix="run trainyard policy test to see whether a rule's Rego is wrong",
        )


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
