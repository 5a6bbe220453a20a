"""Who we are and whom we trust: kubeconfig files, ServiceAccount mounts, client certificates and tokens that rotate."""

from __future__ import annotations

import asyncio
import base64
import datetime
import os
import ssl
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import orjson
from lightkube.config.kubeconfig import KubeConfig, SingleConfig
from lightkube.config.models import User, UserExec
from lightkube.core.exceptions import ConfigError

from trainyard.problem import TrainyardError

__all__ = ["Connection", "TokenSource", "in_cluster", "kubeconfig"]

TokenSource = Callable[[bool], Awaitable[str | None]]
_REREAD_SECONDS = 10.0
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True)
class Connection:
    """How to reach and convince one API server.

    Parameters
    ----------
    server
        Base URL.
    tls
        Verifying TLS context with the client certificate, None for plain HTTP on a loopback address.
    token
        Returns the bearer token, read again when its argument is true; None where certificates speak for us.
    namespace
        Namespace of the kubeconfig context or of the pod.
    """

    server: str
    tls: ssl.SSLContext | None = None
    token: TokenSource | None = None
    namespace: str = "default"


def kubeconfig(path: str | Path, context: str | None = None) -> Connection:
    """Return the connection that a kubeconfig context describes.

    Raises
    ------
    TrainyardError
        If the file or context is unusable, or asks for TLS without verification.
    """
    try:
        chosen = KubeConfig.from_file(path).get(context)
    except (ConfigError, KeyError, OSError, ValueError) as error:
        fix = "Name an existing kubeconfig file and context"
        raise TrainyardError(f"kubeconfig {path}: {error}", fix=fix) from error
    if chosen is None:
        raise TrainyardError(f"kubeconfig {path}: no current context", fix="Name a context")
    return _connection(chosen, str(path))


def in_cluster() -> Connection:
    """Return the connection of a pod: the mounted ServiceAccount token, read again as it rotates."""
    try:
        chosen = KubeConfig.from_service_account().get()
    except (ConfigError, KeyError) as error:
        raise TrainyardError(
            "not in a pod: no ServiceAccount token is mounted", fix="Pass --kubeconfig FILE"
        ) from error
    if chosen is None:
        raise TrainyardError("not in a pod: no ServiceAccount is mounted", fix="Pass --kubeconfig FILE")
    return _connection(chosen, "the pod's ServiceAccount")


def _connection(chosen: SingleConfig, where: str) -> Connection:
    cluster, user = chosen.cluster, chosen.user or User()
    address = urlsplit(cluster.server)
    if cluster.insecure:
        raise TrainyardError(
            f"{where}: insecure-skip-tls-verify is set",
            fix="Set certificate-authority-data to the authority of the API server",
        )
    if user.auth_provider or user.username:
        raise TrainyardError(
            f"{where}: auth-provider and passwords are not supported",
            fix="Use a client certificate, a token or an exec plug-in",
        )
    token = _token(chosen, user)
    if address.scheme == "http":
        if address.hostname not in _LOOPBACK:
            raise TrainyardError(
                f"{where}: {cluster.server} is not encrypted", fix="Use the https:// address of the API server"
            )
        return Connection(cluster.server.rstrip("/"), None, token, chosen.namespace)
    try:
        tls = _tls(chosen, user)
    except (OSError, ValueError) as error:
        raise TrainyardError(f"{where}: unusable certificate: {error}", fix="Write the kubeconfig again") from error
    return Connection(cluster.server.rstrip("/"), tls, token, chosen.namespace)


def _tls(chosen: SingleConfig, user: User) -> ssl.SSLContext:
    cluster = chosen.cluster
    context = ssl.create_default_context()
    if cluster.certificate_auth_data:
        context = ssl.create_default_context(cadata=base64.b64decode(cluster.certificate_auth_data).decode())
    elif cluster.certificate_auth:
        context = ssl.create_default_context(cafile=str(chosen.abs_file(cluster.certificate_auth)))
    certificate = _pem(chosen, user.client_cert_data, user.client_cert)
    key = _pem(chosen, user.client_key_data, user.client_key)
    if certificate and key:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "client.pem"
            path.touch(mode=0o600)
            path.write_bytes(certificate + b"\n" + key)
            context.load_cert_chain(path)
    return context


def _pem(chosen: SingleConfig, data: str | None, path: str | None) -> bytes | None:
    if data:
        return base64.b64decode(data)
    return Path(chosen.abs_file(path)).read_bytes() if path else None


def _token(chosen: SingleConfig, user: User) -> TokenSource | None:
    if user.token_file:
        return _FileToken(Path(chosen.abs_file(user.token_file)))
    if user.exec:
        return _ExecToken(user.exec)
    if user.token:
        fixed = user.token

        async def constant(_: bool) -> str:
            return fixed

        return constant
    return None


class _FileToken:
    """A token in a file that somebody else renews."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._value: str | None = None
        self._read_at = float("-inf")

    async def __call__(self, renew: bool) -> str | None:
        if renew or time.monotonic() - self._read_at >= _REREAD_SECONDS:
            try:
                self._value = self._path.read_text().strip()
            except OSError as error:
                if self._value is None:
                    raise TrainyardError(f"token file {self._path}: {error}", fix="Check the kubeconfig") from error
            self._read_at = time.monotonic()
        return self._value


class _ExecToken:
    """A token that a client-go credential plug-in prints."""

    def __init__(self, plugin: UserExec) -> None:
        self._plugin = plugin
        self._value: str | None = None
        self._expires = float("-inf")
        self._lock = asyncio.Lock()

    async def __call__(self, renew: bool) -> str | None:
        async with self._lock:
            if renew or time.time() >= self._expires:
                await self._run()
        return self._value

    async def _run(self) -> None:
        plugin = self._plugin
        extra = {entry.name: entry.value for entry in plugin.env or ()}
        info = {"apiVersion": plugin.apiVersion, "kind": "ExecCredential", "spec": {"interactive": False}}
        environment = os.environ | extra | {"KUBERNETES_EXEC_INFO": orjson.dumps(info).decode()}
        pipe = asyncio.subprocess.PIPE
        try:
            process = await asyncio.create_subprocess_exec(
                plugin.command, *(plugin.args or ()), env=environment, stdout=pipe, stderr=pipe
            )
        except OSError as error:
            raise TrainyardError(
                f"credential plug-in {plugin.command}: {error}", fix=plugin.installHint or "Install it"
            ) from error
        output, errors = await process.communicate()
        try:
            status = orjson.loads(output)["status"]
            self._value = str(status["token"])
        except (orjson.JSONDecodeError, KeyError, TypeError) as error:
            text = errors.decode(errors="replace").strip() or "it printed no token"
            raise TrainyardError(f"credential plug-in {plugin.command}: {text}", fix="Run it by hand") from error
        expiry = status.get("expirationTimestamp")
        until = (
            datetime.datetime.fromisoformat(expiry.replace("Z", "+00:00")).timestamp() if expiry else time.time() + 600
        )
        self._expires = until - 30
