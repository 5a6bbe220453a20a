"""Credential plug-ins of client-go: no terminal, a timeout, bounded output, refreshed before expiry."""

from __future__ import annotations

import asyncio
import datetime
import logging
import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import orjson
from lightkube.config.models import UserExec

from trainyard.kube.errors import CredentialsError

__all__ = ["ExecPlugin", "Printed"]

_LOG = logging.getLogger(__name__)
_OUTPUT_LIMIT = 1 << 20
_ERRORS_LIMIT = 500
_AHEAD_SECONDS = 60.0


@dataclass(frozen=True, eq=False)
class Printed:
    """What a plug-in printed: a token, a client certificate with its key, or both."""

    token: str | None
    certificate: bytes | None
    obtained: float
    expires: float


class ExecPlugin:
    """Runs a plug-in once for all who wait and keeps what it printed until it expires or is refused.

    A minute before expiry it is run in the background, so no request waits for it; while it fails, its last
    output is used until that expires.

    Parameters
    ----------
    plugin
        The exec section of a kubeconfig user.
    command
        Program to run.
    timeout
        Seconds after which it is killed, with what it started.
    retry
        Seconds for which it is not run again after a failure.
    clock
        Wall clock in seconds.
    """

    def __init__(
        self,
        plugin: UserExec,
        command: str,
        *,
        timeout: float = 30.0,
        retry: float = 5.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._plugin = plugin
        self._command = command
        self._timeout = timeout
        self._retry = retry
        self._clock = clock
        self._held: Printed | None = None
        self._task: asyncio.Task[None] | None = None
        self._failure: CredentialsError | None = None
        self._failed_at = float("-inf")

    async def current(self, refused: Printed | None = None) -> Printed:
        """Return what to present now, something newer than what the API server refused.

        Raises
        ------
        CredentialsError
            If the plug-in fails and nothing valid is held.
        """
        held = self._held
        if held is not None and held is not refused and self._clock() < held.expires:
            ahead = min(_AHEAD_SECONDS, (held.expires - held.obtained) / 5)
            if self._clock() >= held.expires - ahead:
                self._start()
            return held
        task = self._start()
        if task is not None:
            await asyncio.shield(task)
        held, failure = self._held, self._failure
        if held is not None and (failure is None or self._clock() < held.expires):
            return held
        if failure is None:
            raise self._error("it was not run")
        raise CredentialsError(failure.message, fix=failure.fix) from failure

    def _start(self) -> asyncio.Task[None] | None:
        """Run the plug-in unless it runs or has just failed."""
        if self._task is not None and not self._task.done():
            return self._task
        if time.monotonic() - self._failed_at < self._retry:
            return None
        self._task = asyncio.create_task(self._renew())
        return self._task

    async def _renew(self) -> None:
        try:
            self._held = await self._run()
        except Exception as error:
            self._failure = error if isinstance(error, CredentialsError) else self._error(repr(error))
            self._failed_at = time.monotonic()
            if self._held is not None and self._clock() < self._held.expires:
                _LOG.warning("%s; what it printed last stays in use", self._failure)
        else:
            self._failure, self._failed_at = None, float("-inf")

    async def _run(self) -> Printed:
        plugin, pipe = self._plugin, asyncio.subprocess.PIPE
        extra = {entry.name: entry.value for entry in plugin.env or ()}
        info = {"apiVersion": plugin.apiVersion, "kind": "ExecCredential", "spec": {"interactive": False}}
        try:
            process = await asyncio.create_subprocess_exec(
                self._command,
                *(plugin.args or ()),
                env=os.environ | extra | {"KUBERNETES_EXEC_INFO": orjson.dumps(info).decode()},
                stdin=asyncio.subprocess.DEVNULL,
                stdout=pipe,
                stderr=pipe,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            raise self._error(str(error), plugin.installHint or "Install it") from error
        try:
            async with asyncio.timeout(self._timeout):
                output, errors, code = await asyncio.gather(
                    _read(process.stdout, _OUTPUT_LIMIT), _read(process.stderr, _ERRORS_LIMIT), process.wait()
                )
        except TimeoutError as error:
            raise self._error(f"it did not end within {self._timeout:g} s and was killed") from error
        finally:
            if process.returncode is None:
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(process.pid, signal.SIGKILL)
        if code:
            said = errors.decode(errors="replace").strip()
            raise self._error(f"it ended with {code}: {said}" if said else f"it ended with {code}")
        if len(output) > _OUTPUT_LIMIT:
            raise self._error(f"it printed more than {_OUTPUT_LIMIT} bytes")
        return self._parse(output)

    def _parse(self, output: bytes) -> Printed:
        try:
            status: Any = orjson.loads(output)["status"]
            token = status.get("token")
            pair = [status.get(field) for field in ("clientCertificateData", "clientKeyData")]
            expiry = status.get("expirationTimestamp")
        except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError) as error:
            raise self._error("it printed no ExecCredential with a status") from error
        if not all(value is None or isinstance(value, str) for value in (token, *pair)):
            raise self._error("token, clientCertificateData and clientKeyData must be strings")
        if bool(pair[0]) != bool(pair[1]):
            raise self._error("clientCertificateData and clientKeyData must be printed together")
        if not token and not pair[0]:
            raise self._error("it printed neither a token nor a client certificate")
        certificate = "\n".join(pair).encode() if pair[0] else None
        return Printed(token or None, certificate, self._clock(), self._expiry(expiry))

    def _expiry(self, expiry: object) -> float:
        if expiry is None:
            return float("inf")
        try:
            at = datetime.datetime.fromisoformat(str(expiry))
        except ValueError as error:
            raise self._error(f"expirationTimestamp {expiry!r} is not an RFC 3339 time") from error
        return (at if at.tzinfo else at.replace(tzinfo=datetime.UTC)).timestamp()

    def _error(self, why: str, fix: str = "Run it by hand") -> CredentialsError:
        return CredentialsError(f"credential plug-in {self._command}: {why}", fix=fix)


async def _read(stream: asyncio.StreamReader | None, limit: int) -> bytes:
    """Read to the end and keep one byte more than the limit, at most."""
    kept = bytearray()
    while stream is not None and (chunk := await stream.read(1 << 16)):
        kept += chunk[: max(0, limit + 1 - len(kept))]
    return bytes(kept)
