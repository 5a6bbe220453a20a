"""Credentials: kubeconfig files, ServiceAccount mounts, client certificates and tokens that rotate."""

from __future__ import annotations

import base64
import ssl
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import yaml
from lightkube.config.kubeconfig import KubeConfig, SingleConfig
from lightkube.config.models import User
from lightkube.core.exceptions import ConfigError

from trainyard.errors import TrainyardError
from trainyard.kube.api_errors import CredentialsError
from trainyard.kube.exec_plugin import ExecCredential, ExecPlugin
from trainyard.kube.kubeconfig_files import files_of, merged
from trainyard.kube.rotation import FileBacked

_LOOPBACK = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True)
class Credential:
    """TLS context and token of one request.

    Parameters
    ----------
    tls
        Verifying TLS context with the client certificate; None for plain HTTP on a loopback address. aiohttp reuses a
        connection only with the same context object, so new requests never use a replaced certificate.
    token
        Bearer token; None if the client certificate authenticates the request.
    """

    tls: ssl.SSLContext | None = None
    token: str | None = None


class Credentials:
    """Credentials for one API server, reloaded when they are rotated.

    Parameters
    ----------
    tls
        TLS context with the certificate authority and the client certificate.
    token
        Token from a kubeconfig or a file.
    plugin
        Credential plug-in.
    """

    def __init__(
        self,
        tls: FileBacked[ssl.SSLContext] | None = None,
        token: str | FileBacked[str] | None = None,
        plugin: ExecPlugin | None = None,
    ) -> None:
        self._tls = tls
        self._token = token
        self._plugin = plugin
        self._exec_credential: ExecCredential | None = None
        self._last = Credential()

    async def current(self, rejected: Credential | None = None) -> Credential:
        """Return the current credential; the same object as ``rejected`` if there is no newer one.

        Raises
        ------
        CredentialsError
            If no valid credential exists.
        """
        retry = rejected is not None and rejected == self._last
        if self._plugin is not None:
            self._exec_credential = await self._plugin.current(self._exec_credential if retry else None)
        certificate = self._exec_credential.certificate if self._exec_credential is not None else None
        tls = self._tls.current(certificate, now=retry) if self._tls is not None else None
        token = self._token.current(now=retry) if isinstance(self._token, FileBacked) else self._token
        if self._exec_credential is not None and self._exec_credential.token is not None:
            token = self._exec_credential.token
        found = Credential(tls, token)
        if found != self._last:
            self._last = found
        return self._last


@dataclass(frozen=True)
class Connection:
    """Address and credentials of one API server.

    Parameters
    ----------
    server
        Base URL.
    credentials
        Credentials for its requests.
    namespace
        Namespace of the kubeconfig context or of the pod.
    authority
        TLS context that only verifies the server; None for plain HTTP.
    """

    server: str
    credentials: Credentials = field(default_factory=Credentials)
    namespace: str = "default"
    authority: FileBacked[ssl.SSLContext] | None = None

    def with_token(self, token: str) -> Connection:
        """Return the connection of another user: neither this one's token nor its client certificate is presented."""
        return Connection(self.server, Credentials(self.authority, token), self.namespace, self.authority)


def kubeconfig(path: str | Path, context: str | None = None) -> Connection:
    """Return the connection described by a context of a kubeconfig file, or of a list of files as in ``KUBECONFIG``.

    Raises
    ------
    TrainyardError
        If the file or context is invalid, or disables TLS verification.
    """
    try:
        files = files_of(str(path))
        merge = len(files) > 1
        config = KubeConfig.from_dict(merged(files), fname=files[0]) if merge else KubeConfig.from_file(files[0])
        chosen = config.get(context)
    except (ConfigError, KeyError, OSError, ValueError) as error:
        fix = "Name an existing kubeconfig file and context"
        raise TrainyardError(f"kubeconfig {path}: {error}", fix=fix) from error
    except (AttributeError, TypeError, yaml.YAMLError) as error:
        raise TrainyardError(f"{path} is not a kubeconfig", fix="Name an existing kubeconfig file") from error
    if chosen is None:
        raise TrainyardError(f"kubeconfig {path}: no current context", fix="Name a context")
    return _connection(chosen, str(path))


def in_cluster() -> Connection:
    """Return the connection of a pod, with the mounted ServiceAccount token, reloaded when it is rotated."""
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
    own = Credentials(tls, _token(chosen, user), plugin)
    authority = None if plain else _tls(chosen, User())
    return Connection(cluster.server.rstrip("/"), own, chosen.namespace, authority)


def _tls(chosen: SingleConfig, user: User) -> FileBacked[ssl.SSLContext]:
    cluster = chosen.cluster

    def build(plugin_pair: bytes | None) -> ssl.SSLContext:
        authority = _pem(chosen, cluster.certificate_auth_data, cluster.certificate_auth)
        context = ssl.create_default_context(cadata=authority.decode() if authority is not None else None)
        certificate = _pem(chosen, user.client_cert_data, user.client_cert)
        key = _pem(chosen, user.client_key_data, user.client_key)
        if (certificate is None) != (key is None):
            raise ValueError("client-certificate and client-key must be given together")
        pair = certificate + b"\n" + key if certificate is not None and key is not None else plugin_pair
        if pair:
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "client.pem"
                path.touch(mode=0o600)
                path.write_bytes(pair)
                context.load_cert_chain(path, password="")  # an encrypted key is an error instead of a prompt
        return context

    named = (
        (cluster.certificate_auth_data, cluster.certificate_auth),
        (user.client_cert_data, user.client_cert),
        (user.client_key_data, user.client_key),
    )
    files = [Path(chosen.abs_file(path)) for data, path in named if path and not data]
    return FileBacked("unusable certificate", files, build)


def _pem(chosen: SingleConfig, data: str | None, path: str | None) -> bytes | None:
    if not data and not path:
        return None
    content = base64.b64decode(data) if data else Path(chosen.abs_file(path or "")).read_bytes()
    if not content.strip():
        raise ValueError(f"{path or 'the data'} is empty")
    return content


def _token(chosen: SingleConfig, user: User) -> str | FileBacked[str] | None:
    if not user.token_file:
        return user.token
    path = Path(chosen.abs_file(user.token_file))

    def read(_: bytes | None) -> str:
        token = path.read_text().strip()
        if not token:
            raise ValueError("it is empty")
        return token

    return FileBacked(f"token file {path}", [path], read)


def _command(chosen: SingleConfig, command: str) -> str:
    """Resolve a relative path against the folder of the kubeconfig, as client-go does."""
    return str(chosen.abs_file(command)) if "/" in command else command
