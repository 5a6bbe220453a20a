"""Registry client for digests, by the OCI distribution API."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import ipaddress
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final
from urllib.parse import urljoin, urlsplit

import aiohttp

from trainyard.errors import TrainyardError
from trainyard.runtimes.images.image_reference import ImageReference

__all__ = ["Registry", "UnresolvedError", "docker_credentials"]

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
"""Bytes; what the distribution API asks registries to take at least, and no manifest needs."""
_LARGEST_TOKEN: Final = 256 * 1024
_ATTEMPTS: Final = 3
_REDIRECTIONS: Final = 5
_PARAMETER: Final = re.compile(r'([a-zA-Z]+)="((?:[^"\\]|\\.)*)"')


class UnresolvedError(Exception):
    """Why an image has no digest: a few words, the same at every attempt."""


class Registry:
    """A client of registries; to be used as an asynchronous context.

    Parameters
    ----------
    credentials
        User and password by registry, as `docker_credentials` reads them.
    timeout
        Seconds that one answer may take.
    patience
        Seconds to wait at most when a registry asks to come back later.
    connections
        Questions at the same time.
    """

    def __init__(
        self,
        credentials: Mapping[str, tuple[str, str]] | None = None,
        *,
        timeout: float = 30,
        patience: float = 20,
        connections: int = 8,
    ) -> None:
        self._credentials = credentials or {}
        self._timeout = aiohttp.ClientTimeout(total=timeout)
        self._patience = patience
        self._turns = asyncio.Semaphore(connections)
        self._tokens: dict[tuple[str, str], str] = {}
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Registry:
        self._session = aiohttp.ClientSession(
            timeout=self._timeout, trust_env=True, headers={"User-Agent": "trainyard"}
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._session is not None  # noqa: S101
        await self._session.close()

    async def digest(self, image: ImageReference) -> str:
        """Return the digest that a tag has in its registry.

        Raises
        ------
        UnresolvedError
            The registry does not answer, does not let us ask, does not have it, or answers something else.
        """
        async with self._turns:
            try:
                return await self._digest(image)
            except TimeoutError as error:
                raise UnresolvedError(f"{image.registry} does not answer") from error
            except aiohttp.ClientConnectorCertificateError as error:
                raise UnresolvedError(f"the certificate of {image.registry} is not trusted") from error
            except aiohttp.ClientConnectionError as error:
                raise UnresolvedError(f"{image.registry} cannot be reached") from error
            except (aiohttp.ClientError, ValueError) as error:
                raise UnresolvedError(f"{image.registry} does not speak the distribution API") from error

    async def _digest(self, image: ImageReference) -> str:
        url = f"{_origin(image.registry)}/v2/{image.repository}/manifests/{image.digest or image.tag or 'latest'}"
        status, headers, _ = await self._asked("HEAD", url, image)
        if status == 200 and "Docker-Content-Digest" not in headers:
            status, headers, body = await self._asked("GET", url, image)
            if status == 200 and "Docker-Content-Digest" not in headers:
                return f"sha256:{hashlib.sha256(body).hexdigest()}"
        if status == 404:
            raise UnresolvedError(f"{image.registry} does not have it")
        if status in (401, 403):
            known = "refuses the credentials" if self._login(image.registry) else "wants a login"
            raise UnresolvedError(f"{image.registry} {known}")
        if status == 429:
            raise UnresolvedError(f"{image.registry} limits the rate of questions")
        if status != 200:
            raise UnresolvedError(f"{image.registry} answers {status}")
        digest = str(headers["Docker-Content-Digest"])
        if not _DIGEST.fullmatch(digest):
            raise UnresolvedError(f"{image.registry} names a digest that is no SHA-256")
        return digest

    async def _asked(self, method: str, url: str, image: ImageReference) -> tuple[int, Mapping[str, str], bytes]:
        """Ask again with a token where one is wanted, and later where the registry says so."""
        scope = (image.registry, image.repository)
        authorized = False
        for attempt in range(1, _ATTEMPTS + 1):
            status, headers, body = await self._once(method, url, self._tokens.get(scope))
            if status == 401 and not authorized:
                authorized = True
                self._tokens[scope] = await self._authorization(headers.get("WWW-Authenticate", ""), image)
                status, headers, body = await self._once(method, url, self._tokens[scope])
            if (status != 429 and status < 500) or attempt == _ATTEMPTS:
                break
            await asyncio.sleep(min(_seconds(headers.get("Retry-After")), self._patience))
        return status, headers, body

    async def _once(self, method: str, url: str, authorization: str | None) -> tuple[int, Mapping[str, str], bytes]:
        """Ask once, and follow where the registry sends us: never without TLS, and without its token to others."""
        assert self._session is not None  # noqa: S101
        origin = urlsplit(url).netloc
        for _ in range(_REDIRECTIONS):
            known = authorization if urlsplit(url).netloc == origin else None
            headers = {"Accept": _MANIFESTS, **({"Authorization": known} if known else {})}
            async with self._session.request(method, url, headers=headers, allow_redirects=False) as response:
                if response.status not in (301, 302, 303, 307, 308):
                    body = await _bounded(response, _LARGEST_MANIFEST) if method == "GET" else b""
                    return response.status, response.headers, body
                url = urljoin(url, response.headers.get("Location", ""))
            if not _trusted(url):
                raise UnresolvedError(f"{origin} sends us to an address without TLS")
        raise UnresolvedError(f"{origin} sends us from one address to another")

    async def _authorization(self, challenge: str, image: ImageReference) -> str:
        scheme, _, rest = challenge.partition(" ")
        login = self._login(image.registry)
        if scheme.lower() == "basic":
            if login is None:
                raise UnresolvedError(f"{image.registry} wants a login")
            return _basic(login)
        parameters = {key.lower(): value for key, value in _PARAMETER.findall(rest)}
        realm = parameters.get("realm", "")
        if scheme.lower() != "bearer" or not _trusted(realm):
            raise UnresolvedError(f"{image.registry} wants a login of an unknown kind")
        query = {"scope": parameters.get("scope") or f"repository:{image.repository}:pull"}
        if "service" in parameters:
            query["service"] = parameters["service"]
        headers = {"Authorization": _basic(login)} if login else {}
        assert self._session is not None  # noqa: S101
        async with self._session.get(realm, params=query, headers=headers, allow_redirects=False) as response:
            if response.status != 200:
                reason = {429: "limits the rate of questions"}.get(response.status)
                refused = "refuses the credentials" if login else "wants a login"
                raise UnresolvedError(f"{image.registry} {reason or refused}")
            answer: Any = json.loads(await _bounded(response, _LARGEST_TOKEN))
        token = (answer.get("token") or answer.get("access_token")) if isinstance(answer, dict) else None
        if not isinstance(token, str) or not re.fullmatch(r"[\x21-\x7e]+", token):
            raise UnresolvedError(f"{image.registry} gives no token")
        return f"Bearer {token}"

    def _login(self, registry: str) -> tuple[str, str] | None:
        keys = _KEYS.get(registry, (registry, f"https://{registry}"))
        return next((self._credentials[key] for key in keys if key in self._credentials), None)


def docker_credentials() -> dict[str, tuple[str, str]]:
    """Return what ``docker login`` wrote: user and password by registry; credential helpers are not asked.

    Raises
    ------
    TrainyardError
        The file is not what Docker writes.
    """
    file = Path(os.environ.get("DOCKER_CONFIG") or Path.home() / ".docker") / "config.json"
    try:
        auths = json.loads(file.read_text(encoding="utf-8")).get("auths", {})
    except OSError:
        return {}
    except (ValueError, AttributeError) as error:
        raise TrainyardError(f"{file} is not what docker login writes", fix="log in again, or remove it") from error
    found = {}
    for registry, entry in auths.items() if isinstance(auths, dict) else ():
        try:
            user, _, password = base64.b64decode(entry["auth"]).decode().partition(":")
        except (KeyError, TypeError, ValueError):
            continue
        found[registry] = (user, password)
    return found


def _origin(registry: str) -> str:
    host = _HOSTS.get(registry, registry)
    return f"http://{host}" if _own_machine(urlsplit(f"//{host}").hostname or "") else f"https://{host}"


def _trusted(url: str) -> bool:
    parts = urlsplit(url)
    return parts.scheme == "https" or (parts.scheme == "http" and _own_machine(parts.hostname or ""))


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
            raise UnresolvedError(f"{response.url.host} answers with more than {limit} bytes")
    return bytes(body)


def _basic(login: tuple[str, str]) -> str:
    return f"Basic {base64.b64encode(':'.join(login).encode()).decode()}"


def _seconds(text: str | None) -> float:
    return float(text) if text and re.fullmatch(r"[0-9]{1,6}", text) else 1.0
