"""Registry client of the OCI distribution API: logins, tokens, digests of images."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import ipaddress
import json
import os
import re
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final
from urllib.parse import urljoin, urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp

from trainyard.errors import TrainyardError
from trainyard.jobs.runtimes.images.image_reference import ImageReference

_MANIFESTS: Final = ", ".join(
    (
        "application/vnd.oci.image.index.v1+json",
        "application/vnd.docker.distribution.manifest.list.v2+json",
        "application/vnd.oci.image.manifest.v1+json",
        "application/vnd.docker.distribution.manifest.v2+json",
    )
)
_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")
_HOSTS: Final = {"docker.io": "registry-1.docker.io"}
_KEYS: Final = {"docker.io": ("https://index.docker.io/v1/", "docker.io", "registry-1.docker.io")}
_LARGEST_MANIFEST: Final = 4 * 1024 * 1024
"""Maximum bytes of a manifest; the minimum that registries must support, and far above real manifests."""
_LARGEST_TOKEN: Final = 256 * 1024
_ATTEMPTS: Final = 3
_REDIRECTIONS: Final = 5
_PARAMETER: Final = re.compile(r'(?<![a-zA-Z])([a-zA-Z]+)="((?:[^"\\]|\\.)*)"')


Body = Callable[[], bytes | AsyncIterator[bytes]]


class UnresolvedError(Exception):
    """An image cannot be resolved; the message is short and deterministic."""


class Registry:
    """Registry client; an asynchronous context manager.

    Parameters
    ----------
    credentials
        User and password by registry, as returned by `docker_credentials`.
    timeout
        Timeout of one request in seconds.
    patience
        Maximum seconds to wait for a rate-limited retry.
    connections
        Maximum concurrent requests.
    tls
        TLS context, also used on this machine; None: the system's authorities, and plain HTTP on this machine.
    """

    def __init__(
        self,
        credentials: Mapping[str, tuple[str, str]] | None = None,
        *,
        timeout: float = 30,
        patience: float = 20,
        connections: int = 8,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._credentials = credentials or {}
        self._timeout = aiohttp.ClientTimeout(total=timeout)
        self._patience = patience
        self._tls = tls
        self._turns = asyncio.Semaphore(connections)
        self._tokens: dict[tuple[str, str], str] = {}
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Registry:
        self._session = aiohttp.ClientSession(
            timeout=self._timeout,
            headers={"User-Agent": "trainyard"},
            connector=aiohttp.TCPConnector(ssl=self._tls) if self._tls is not None else None,
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._session is not None  # noqa: S101
        await self._session.close()

    def origin(self, registry: str) -> str:
        """Return the URL of a registry."""
        host = _HOSTS.get(registry, registry)
        plain = self._tls is None and _own_machine(urlsplit(f"//{host}").hostname or "")
        return f"{'http' if plain else 'https'}://{host}"

    async def digest(self, image: ImageReference) -> str:
        """Return the digest of a tag in its registry.

        Raises
        ------
        UnresolvedError
            The registry does not respond, rejects the request, lacks the image, or returns an unexpected response.
        """
        async with self._turns:
            try:
                return await self._digest(image)
            except TimeoutError as error:
                raise UnresolvedError(f"{image.registry} timed out") from error
            except aiohttp.ClientConnectorCertificateError as error:
                raise UnresolvedError(f"the certificate of {image.registry} is not trusted") from error
            except aiohttp.ClientConnectionError as error:
                raise UnresolvedError(f"{image.registry} cannot be reached") from error
            except (aiohttp.ClientError, ValueError) as error:
                raise UnresolvedError(f"{image.registry} does not support the distribution API") from error

    async def _digest(self, image: ImageReference) -> str:
        url = f"{self.origin(image.registry)}/v2/{image.repository}/manifests/{image.digest or image.tag or 'latest'}"
        status, headers, _ = await self.request("HEAD", url, image)
        if status == 200 and "Docker-Content-Digest" not in headers:
            status, headers, body = await self.request("GET", url, image)
            if status == 200 and "Docker-Content-Digest" not in headers:
                return f"sha256:{hashlib.sha256(body).hexdigest()}"
        if status == 404:
            raise UnresolvedError(f"{image.registry} does not have the image")
        if status in (401, 403):
            known = "rejects the credentials" if self._login(image.registry) else "requires a login"
            raise UnresolvedError(f"{image.registry} {known}")
        if status == 429:
            raise UnresolvedError(f"{image.registry} limits the request rate")
        if status != 200:
            raise UnresolvedError(f"{image.registry} returned status {status}")
        digest = str(headers["Docker-Content-Digest"])
        if not _DIGEST.fullmatch(digest):
            raise UnresolvedError(f"{image.registry} returned a digest that is not SHA-256")
        return digest

    async def request(
        self,
        method: str,
        url: str,
        image: ImageReference,
        *,
        headers: Mapping[str, str] | None = None,
        body: Body | None = None,
    ) -> tuple[int, Mapping[str, str], bytes]:
        """Send a request; retry with a token if required, and after a delay if rate-limited.

        Parameters
        ----------
        method, url, headers
            The request; its URL is in the registry of the image.
        image
            The image, whose repository the token is for.
        body
            Returns the body, once for each attempt.
        """
        sent = (headers or {}, body)
        scope = (image.registry, image.repository)
        authorized = False
        for attempt in range(1, _ATTEMPTS + 1):
            status, received, content = await self._once(method, url, self._tokens.get(scope), *sent)
            if status == 401 and not authorized:
                authorized = True
                self._tokens[scope] = await self._authorization(received.get("WWW-Authenticate", ""), image)
                status, received, content = await self._once(method, url, self._tokens[scope], *sent)
            if (status != 429 and status < 500) or attempt == _ATTEMPTS:
                break
            await asyncio.sleep(min(_seconds(received.get("Retry-After")), self._patience))
        return status, received, content

    async def _once(
        self, method: str, url: str, authorization: str | None, sent: Mapping[str, str], body: Body | None
    ) -> tuple[int, Mapping[str, str], bytes]:
        """Send one request; follow redirects only over TLS, and never with credentials or a body to other hosts."""
        assert self._session is not None  # noqa: S101
        name, origin = urlsplit(url).netloc, _host(url)
        for _ in range(_REDIRECTIONS):
            known = authorization if _host(url) == origin else None
            headers = {"Accept": _MANIFESTS, **sent, **({"Authorization": known} if known else {})}
            data = body() if body is not None else None
            async with self._session.request(
                method, url, headers=headers, data=data, allow_redirects=False, proxy=_proxy(url)
            ) as response:
                if response.status == 401 and _host(url) != origin:
                    raise UnresolvedError(f"{name} redirects to a host that requires a login")
                if response.status not in (301, 302, 303, 307, 308):
                    content = await _bounded(response, _LARGEST_MANIFEST) if method == "GET" else b""
                    return response.status, response.headers, content
                url = urljoin(url, response.headers.get("Location", ""))
            if not _trusted(url):
                raise UnresolvedError(f"{name} redirects to an address without TLS")
            if method not in ("GET", "HEAD") and _host(url) != origin:
                raise UnresolvedError(f"{name} redirects an upload to another address")
        raise UnresolvedError(f"{name} redirects too often")

    async def _authorization(self, challenge: str, image: ImageReference) -> str:
        scheme, _, rest = challenge.partition(" ")
        login = self._login(image.registry)
        if scheme.lower() == "basic":
            if login is None:
                raise UnresolvedError(f"{image.registry} requires a login")
            return _basic(login)
        parameters = {key.lower(): value for key, value in _PARAMETER.findall(rest)}
        realm = parameters.get("realm", "")
        encrypted = urlsplit(realm).scheme == "https" or self.origin(image.registry).startswith("http://")
        if scheme.lower() != "bearer" or not (encrypted and _trusted(realm)):
            raise UnresolvedError(f"{image.registry} requires an unsupported kind of login")
        query = {"scope": parameters.get("scope") or f"repository:{image.repository}:pull"}
        if "service" in parameters:
            query["service"] = parameters["service"]
        headers = {"Authorization": _basic(login)} if login else {}
        assert self._session is not None  # noqa: S101
        async with self._session.get(
            realm, params=query, headers=headers, allow_redirects=False, proxy=_proxy(realm)
        ) as response:
            if response.status != 200:
                reason = {429: "limits the request rate"}.get(response.status)
                refused = "rejects the credentials" if login else "requires a login"
                raise UnresolvedError(f"{image.registry} {reason or refused}")
            answer: Any = json.loads(await _bounded(response, _LARGEST_TOKEN))
        token = (answer.get("token") or answer.get("access_token")) if isinstance(answer, dict) else None
        if not isinstance(token, str) or not re.fullmatch(r"[\x21-\x7e]+", token):
            raise UnresolvedError(f"{image.registry} returned no token")
        return f"Bearer {token}"

    def _login(self, registry: str) -> tuple[str, str] | None:
        keys = _KEYS.get(registry, (registry, f"https://{registry}"))
        return next((self._credentials[key] for key in keys if key in self._credentials), None)


def docker_credentials(given: Path | None = None) -> dict[str, tuple[str, str]]:
    """Return the credentials of ``docker login``: user and password by registry; credential helpers are not supported.

    Parameters
    ----------
    given
        File with a Docker configuration, as in a pull secret; None: that of ``docker login``, if it exists.

    Raises
    ------
    TrainyardError
        The file is invalid, or does not exist although it was given.
    """
    file = given or Path(os.environ.get("DOCKER_CONFIG") or Path.home() / ".docker") / "config.json"
    try:
        auths = json.loads(file.read_text(encoding="utf-8")).get("auths", {})
    except OSError as error:
        if given is not None:
            raise TrainyardError(
                f"{file} cannot be read: {error.strerror}", fix="give a Docker configuration"
            ) from error
        return {}
    except (ValueError, AttributeError) as error:
        raise TrainyardError(f"{file} is not a valid Docker configuration", fix="log in again, or remove it") from error
    found = {}
    for registry, entry in auths.items() if isinstance(auths, dict) else ():
        try:
            if "auth" in entry:
                user, _, password = base64.b64decode(entry["auth"]).decode().partition(":")
            else:
                user, password = str(entry["username"]), str(entry["password"])
        except (KeyError, TypeError, ValueError):
            continue
        found[registry] = (user, password)
    return found


def trusting(ca: Path) -> ssl.SSLContext:
    """Return a TLS context that trusts the certificate authority in a PEM file.

    Raises
    ------
    TrainyardError
        The file cannot be read, or has no certificate.
    """
    try:
        return ssl.create_default_context(cafile=str(ca))
    except (OSError, ssl.SSLError) as error:
        raise TrainyardError(
            f"{ca} is not a PEM file with a certificate", fix="give the certificate authority of the registry"
        ) from error


def _trusted(url: str) -> bool:
    parts = urlsplit(url)
    return parts.scheme == "https" or (parts.scheme == "http" and _own_machine(parts.hostname or ""))


def _host(url: str) -> tuple[str, str]:
    """Return scheme, and host with a port that is not the scheme's."""
    parts = urlsplit(url)
    port = {"https": ":443", "http": ":80"}.get(parts.scheme, "")
    return parts.scheme, parts.netloc.rpartition("@")[2].lower().removesuffix(port)


def _proxy(url: str) -> str | None:
    """Return the environment's proxy of a URL; plain HTTP is sent to this machine only, and never through a proxy."""
    parts = urlsplit(url)
    if parts.scheme != "https" or _own_machine(parts.hostname or "") or proxy_bypass(_host(url)[1]):
        return None
    return getproxies().get("https")


def _own_machine(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


async def _bounded(response: aiohttp.ClientResponse, limit: int) -> bytes:
    body = bytearray()
    async for chunk in response.content.iter_chunked(65536):
        body += chunk
        if len(body) > limit:
            raise UnresolvedError(f"{response.url.host} returned more than {limit} bytes")
    return bytes(body)


def _basic(login: tuple[str, str]) -> str:
    return f"Basic {base64.b64encode(':'.join(login).encode()).decode()}"


def _seconds(text: str | None) -> float:
    return float(text) if text and re.fullmatch(r"[0-9]{1,6}", text) else 1.0
