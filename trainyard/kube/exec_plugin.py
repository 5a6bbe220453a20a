"""Exec credential plug-ins (client-go): no terminal, a timeout, bounded output, refresh before expiry."""

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

from trainyard.kube.api_errors import CredentialsError

_LOG = logging.getLogger(__name__)
_OUTPUT_LIMIT = 1 << 20
_ERRORS_LIMIT = 500
_AHEAD_SECONDS = 60.0


@dataclass(frozen=True, eq=False)
class ExecCredential:
    """Credential printed by a plug-in: a token, a client certificate with its key, or both."""

    token: str | None
    certificate: bytes | None
    obtained: float
    expires: float


class ExecPlugin:
    """Run a plug-in once for all waiting requests; cache its credential until it expires or is rejected.

    A refresh starts in the background a minute before expiry, so no request waits for it. While refreshes fail, the
    cached credential is used until it expires.

    Parameters
    ----------
    plugin
        The exec section of a kubeconfig user.
    command
        Program to run.
    timeout
        Seconds after which it and its child processes are killed.
    retry
        Least seconds between a failure and the next run.
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
        self._cached: ExecCredential | None = None
        self._task: asyncio.Task[None] | None = None
        self._failure: CredentialsError | None = None
        self._failed_at = float("-inf")

    async def current(self, rejected: ExecCredential | None = None) -> ExecCredential:
        """Return the current credential; a newer one than ``rejected``, if possible.

        Raises
        ------
        CredentialsError
            If the plug-in fails and no valid credential is cached.
        """
        cached = self._cached
        if cached is not None and cached is not rejected and self._clock() < cached.expires:
            ahead = min(_AHEAD_SECONDS, (cached.expires - cached.obtained) / 5)
            if self._clock() >= cached.expires - ahead:
                self._start()
            return cached
        task = self._start()
        if task is not None:
            await asyncio.shield(task)
        cached, failure = self._cached, self._failure
        if cached is not None and (failure is None or self._clock() < cached.expires):
            return cached
        if failure is None:
            raise self._error("not run")
        raise CredentialsError(failure.message, fix=failure.fix) from failure

    def _start(self) -> asyncio.Task[None] | None:
        """Start the plug-in unless it is running or has failed less than ``retry`` seconds ago."""
        if self._task is not None and not self._task.done():
            return self._task
        if time.monotonic() - self._failed_at < self._retry:
            return None
        self._task = asyncio.create_task(self._renew())
        return self._task

    async def _renew(self) -> None:
        try:
            self._cached = await self._run()
        except Exception as error:
            self._failure = error if isinstance(error, CredentialsError) else self._error(repr(error))
            self._failed_at = time.monotonic()
            if self._cached is not None and self._clock() < self._cached.expires:
                _LOG.warning("%s; the cached credential stays in use", self._failure)
        else:
            self._failure, self._failed_at = None, float("-inf")

    async def _run(self) -> ExecCredential:
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
            raise self._error(f"timed out after {self._timeout:g} s and was killed") from error
        finally:
            if process.returncode is None:
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(process.pid, signal.SIGKILL)
        if code:
            stderr = errors.decode(errors="replace").strip()
            raise self._error(f"exited with {code}: {stderr}" if stderr else f"exited with {code}")
        if len(output) > _OUTPUT_LIMIT:
            raise self._error(f"output exceeds {_OUTPUT_LIMIT} bytes")
        return self._parse(output)

    def _parse(self, output: bytes) -> ExecCredential:
        try:
            status: Any = orjson.loads(output)["status"]
            token = status.get("token")
            pair = [status.get(field) for field in ("clientCertificateData", "clientKeyData")]
            expiry = status.get("expirationTimestamp")
        except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError) as error:
            raise self._error("the output is not an ExecCredential with a status") from error
        if not all(value is None or isinstance(value, str) for value in (token, *pair)):
            raise self._error("token, clientCertificateData and clientKeyData must be strings")
        if bool(pair[0]) != bool(pair[1]):
            raise self._error("clientCertificateData and clientKeyData must be set together")
        if not token and not pair[0]:
            raise self._error("the output has neither a token nor a client certificate")
        certificate = "\n".join(pair).encode() if pair[0] else None
        return ExecCredential(token or None, certificate, self._clock(), self._expiry(expiry))

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
    """Read to the end; keep at most ``limit + 1`` bytes."""
    kept = bytearray()
    while stream is not None and (chunk := await stream.read(1 << 16)):
        kept += chunk[: max(0, limit + 1 - len(kept))]
    return bytes(kept)
