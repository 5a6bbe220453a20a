"""Credentials: kubeconfig files, ServiceAccount mounts, client certificates and tokens that rotate."""

from __future__ import annotations

import base64
import ssl
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from lightkube.config.kubeconfig import KubeConfig, SingleConfig
from lightkube.config.models import User
from lightkube.core.exceptions import ConfigError

from trainyard.kube.errors import CredentialsError
from trainyard.kube.exec_plugin import ExecPlugin, Printed
from trainyard.kube.rotation import Rotated
from trainyard.problem import TrainyardError

__all__ = ["Connection", "Credential", "Credentials", "in_cluster", "kubeconfig"]

_LOOPBACK = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True)
class Credential:
    """What to present with one request.

    Parameters
    ----------
    tls
        Verifying TLS context with the client certificate, None for plain HTTP on a loopback address. A connection is
        used again only with the very context it was made with, so one that is replaced is used for no new request.
    token
        Bearer token, None where the certificate speaks for us.
    """

    tls: ssl.SSLContext | None = None
    token: str | None = None


class Credentials:
    """What to present to one API server, read again as it rotates.

    Parameters
    ----------
    tls
        Contexts made of authority and client certificate.
    token
        Token of a kubeconfig or of a file.
    plugin
        Credential plug-in.
    """

    def __init__(
        self,
        tls: Rotated[ssl.SSLContext] | None = None,
        token: str | Rotated[str] | None = None,
        plugin: ExecPlugin | None = None,
    ) -> None:
        self._tls = tls
        self._token = token
        self._plugin = plugin
        self._printed: Printed | None = None
        self._last = Credential()

    async def current(self, refused: Credential | None = None) -> Credential:
        """Return what to present now; the very same object where nothing newer is known than what was refused.

        Raises
        ------
        CredentialsError
            If there is nothing valid.
        """
        again = refused is not None and refused == self._last
        if self._plugin is not None:
            self._printed = await self._plugin.current(self._printed if again else None)
        certificate = self._printed.certificate if self._printed is not None else None
        tls = self._tls.current(certificate, now=again) if self._tls is not None else None
        token = self._token.current(now=again) if isinstance(self._token, Rotated) else self._token
        if self._printed is not None and self._printed.token is not None:
            token = self._printed.token
        found = Credential(tls, token)
        if found != self._last:
            self._last = found
        return self._last


@dataclass(frozen=True)
class Connection:
    """How to reach and convince one API server.

    Parameters
    ----------
    server
        Base URL.
    credentials
        What to present.
    namespace
        Namespace of the kubeconfig context or of the pod.
    """

    server: str
    credentials: Credentials = field(default_factory=Credentials)
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
    plain = address.scheme == "http"
    if plain and address.hostname not in _LOOPBACK:
        raise TrainyardError(
            f"{where}: {cluster.server} is not encrypted", fix="Use the https:// address of the API server"
        )
    tls = None if plain else _tls(chosen, user)
    if tls is not None:
        try:
            tls.current()
        except CredentialsError as error:
            raise TrainyardError(f"{where}: {error.message}", fix="Write the kubeconfig again") from error
    plugin = ExecPlugin(user.exec, _command(chosen, user.exec.command)) if user.exec else None
    return Connection(cluster.server.rstrip("/"), Credentials(tls, _token(chosen, user), plugin), chosen.namespace)


def _tls(chosen: SingleConfig, user: User) -> Rotated[ssl.SSLContext]:
    cluster = chosen.cluster

    def make(printed: bytes | None) -> ssl.SSLContext:
        authority = _pem(chosen, cluster.certificate_auth_data, cluster.certificate_auth)
        context = ssl.create_default_context(cadata=authority.decode() if authority is not None else None)
        certificate = _pem(chosen, user.client_cert_data, user.client_cert)
        key = _pem(chosen, user.client_key_data, user.client_key)
        if (certificate is None) != (key is None):
            raise ValueError("client-certificate and client-key must be given together")
        pair = certificate + b"\n" + key if certificate is not None and key is not None else printed
        if pair:
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "client.pem"
                path.touch(mode=0o600)
                path.write_bytes(pair)
                context.load_cert_chain(path, password="")  # an encrypted key is an error, never a prompt
        return context

    named = (
        (cluster.certificate_auth_data, cluster.certificate_auth),
        (user.client_cert_data, user.client_cert),
        (user.client_key_data, user.client_key),
    )
    files = [Path(chosen.abs_file(path)) for data, path in named if path and not data]
    return Rotated("unusable certificate", files, make)


def _pem(chosen: SingleConfig, data: str | None, path: str | None) -> bytes | None:
    if not data and not path:
        return None
    content = base64.b64decode(data) if data else Path(chosen.abs_file(path or "")).read_bytes()
    if not content.strip():
        raise ValueError(f"{path or 'the data'} is empty")
    return content


def _token(chosen: SingleConfig, user: User) -> str | Rotated[str] | None:
    if not user.token_file:
        return user.token
    path = Path(chosen.abs_file(user.token_file))

    def read(_: bytes | None) -> str:
        token = path.read_text().strip()
        if not token:
            raise ValueError("it is empty")
        return token

    return Rotated(f"token file {path}", [path], read)


def _command(chosen: SingleConfig, command: str) -> str:
    """Resolve a relative path as client-go does: from the folder of the kubeconfig."""
    return str(chosen.abs_file(command)) if "/" in command else command
