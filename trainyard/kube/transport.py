"""HTTP transport to one API server: credentials, fencing, throttling; never retries a write that may have happened."""

from __future__ import annotations

import asyncio
import copy
import math
import re
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

import aiohttp
import orjson

from trainyard.kube.api_errors import CredentialsError, FencedError, TransportError
from trainyard.kube.credentials import Connection, Credential
from trainyard.kube.decoding import decoded
from trainyard.kube.resource import Object, Resource
from trainyard.kube.response import Response, warning_texts

Headers = Sequence[tuple[str, str]]

JSON = "application/json"
_READS = ("GET", "HEAD")
_LEAST_SECONDS = 0.5
_TLS_OBJECT: Final = re.compile(r" ssl:(<[^>]*>|\w+)")
"""Part of aiohttp's messages that means nothing to a reader."""
_IDLE_SECONDS = 15.0
_HEADER_BYTES = 1 << 16
"""Longest header: the API server sends warnings of 4,096 characters in total, each of up to 4 bytes."""


class Transport:
    """Connections to one API server; `trainyard.kube.client.Client` documents the parameters."""

    def __init__(
        self,
        connection: Connection,
        *,
        user_agent: str,
        timeout: float,
        patience: float,
        concurrency: int,
        observe: Callable[[str, str, int], None],
    ) -> None:
        self._options: dict[str, Any] = {
            "user_agent": user_agent,
            "timeout": timeout,
            "patience": patience,
            "concurrency": concurrency,
            "observe": observe,
        }
        self._connection = connection
        self._headers = {"User-Agent": user_agent, "Accept": JSON, "Accept-Encoding": "identity"}
        self._timeout = timeout
        self._patience = patience
        self._slots = asyncio.Semaphore(concurrency)
        self._observe = observe
        self._remaining: Callable[[], float] | None = None
        self.unanswered_at = -math.inf
        self._sessions: list[aiohttp.ClientSession] = []
        self._separate: list[Transport] = []

    def fenced(self, remaining: Callable[[], float]) -> Transport:
        """Return a view that shares the connections and whose writes time out within ``remaining()`` seconds.

        The limit is computed for each attempt, so retries after 429 or 401 are fenced too, and a lease renewal between
        attempts extends it. It is also sent to the server (query parameter ``timeout``), which then drops the request.
        ``unanswered_at`` of the view is the `time.monotonic` of its newest write that was sent and not answered.
        """
        view = copy.copy(self)
        view._remaining = remaining
        return view

    def separate(self, **changes: Any) -> Transport:
        """Return a transport with its own connections and request slots; it is closed with this one."""
        other = Transport(self._connection, **{**self._options, **changes})
        self._separate.append(other)
        return other

    async def close(self) -> None:
        """Close all connections."""
        while self._separate:
            await self._separate.pop().close()
        while self._sessions:
            await self._sessions.pop().close()

    async def request(
        self,
        method: str,
        path: str,
        *,
        resource: Resource | None = None,
        body: Any = None,
        query: Mapping[str, str] | None = None,
        content_type: str = JSON,
        accept: str | None = None,
    ) -> Object:
        """Return the object of a successful response; raise the error of another one."""
        headers = [("Accept", accept)] if accept else []
        response = await self.exchange(
            method, path, resource=resource, body=body, query=query, content_type=content_type, headers=headers
        )
        if not response.ok:
            raise response.error
        return _object(response.payload, f"{method} {path}")

    async def exchange(
        self,
        method: str,
        path: str,
        *,
        resource: Resource | None = None,
        body: Any = None,
        query: Mapping[str, str] | None = None,
        content_type: str = JSON,
        headers: Headers = (),
    ) -> Response:
        """Send one request, retry it while the server throttles, and return the response whatever its status."""
        data = None if body is None else orjson.dumps(body)
        if data is not None:
            headers = [("Content-Type", content_type), *headers]
        if method in _READS:  # no total limit: a long page over a slow link takes long, but data keeps arriving
            limits = aiohttp.ClientTimeout(total=None, sock_connect=self._timeout, sock_read=self._timeout)
        else:
            limits = aiohttp.ClientTimeout(total=self._timeout)
        deadline = time.monotonic() + self._patience
        while True:
            async with self._slots:
                received = await self._send(
                    method, path, resource, query=query, data=data, headers=headers, limits=limits
                )
                try:
                    response = _response(received, await received.read())
                except (aiohttp.ClientError, TimeoutError, OSError) as error:
                    raise TransportError(f"{method} {path}: {str(error) or type(error).__name__}") from error
                finally:
                    received.release()
            wait = response.retry_after
            if response.status != 429 or wait is None or time.monotonic() + wait > deadline:
                return response
            await asyncio.sleep(wait)

    @asynccontextmanager
    async def stream(
        self, path: str, *, resource: Resource, query: Mapping[str, str]
    ) -> AsyncIterator[aiohttp.StreamReader]:
        """Open a streaming response; leaving the context closes its connection."""
        limits = aiohttp.ClientTimeout(total=None, sock_connect=self._timeout)
        try:
            async with asyncio.timeout(self._timeout):
                response = await self._send("GET", path, resource, query=query, data=None, headers=(), limits=limits)
        except TimeoutError as error:
            raise TransportError(f"GET {path}: no response within {self._timeout:g} s") from error
        try:
            if response.status != 200:
                raise _response(response, await response.read()).error
            yield response.content
        finally:
            response.close()

    async def _send(
        self,
        method: str,
        path: str,
        resource: Resource | None,
        *,
        query: Mapping[str, str] | None,
        data: bytes | None,
        headers: Headers,
        limits: aiohttp.ClientTimeout,
    ) -> aiohttp.ClientResponse:
        credentials = self._connection.credentials
        presented = await credentials.current()
        parts: dict[str, Any] = {"query": query, "data": data, "headers": headers, "limits": limits}
        response = await self._attempt(method, path, resource, presented, **parts)
        if response.status == 401:
            response.release()
            newer = await credentials.current(rejected=presented)
            if newer is not presented:
                response = await self._attempt(method, path, resource, newer, **parts)
        if response.status == 401:
            response.release()
            raise CredentialsError(
                f"{method} {path}: the API server rejects the credentials of this process (401)",
                fix="Renew the token, certificate or plug-in of the kubeconfig",
            )
        return response

    async def _attempt(
        self, method: str, path: str, resource: Resource | None, presented: Credential, **parts: Any
    ) -> aiohttp.ClientResponse:
        query, limits = parts["query"], parts["limits"]
        if method not in _READS and self._remaining is not None:
            left = self._remaining()
            if left < _LEAST_SECONDS:
                raise FencedError(f"{method} {path} was not sent: the lease expires in {max(0.0, left):.1f} s")
            total = min(left, limits.total)
            query = {**(query or {}), "timeout": f"{total:.3f}s"}
            limits = aiohttp.ClientTimeout(total=total, ceil_threshold=math.inf)
        bearer = [("Authorization", f"Bearer {presented.token}")] if presented.token else []
        try:
            response = await self._session().request(
                method,
                self._connection.server + path,
                params=query,
                data=parts["data"],
                headers=[*parts["headers"], *bearer],
                timeout=limits,
                ssl=presented.tls if presented.tls is not None else True,
            )
        except asyncio.CancelledError:
            if method not in _READS:
                self.unanswered_at = time.monotonic()
            raise
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            if method not in _READS and not isinstance(error, aiohttp.ClientConnectorError):
                self.unanswered_at = time.monotonic()
            self._observe(method, str(resource or path), 0)
            reason = _TLS_OBJECT.sub("", str(error)) or type(error).__name__
            raise TransportError(f"{method} {path}: {reason}") from error
        self._observe(method, str(resource or path), response.status)
        return response

    def _session(self) -> aiohttp.ClientSession:
        if not self._sessions:
            # Idle connections are closed before a request times out: when all connections go dead at once, the idle
            # ones are closed before the first requests fail, so no retry uses a dead connection.
            connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=_IDLE_SECONDS)
            self._sessions.append(
                aiohttp.ClientSession(
                    connector=connector,
                    cookie_jar=aiohttp.DummyCookieJar(),
                    headers=self._headers,
                    max_line_size=_HEADER_BYTES,
                    max_field_size=_HEADER_BYTES,
                )
            )
        return self._sessions[0]


def _object(payload: bytes, request: str) -> Object:
    try:
        body = decoded(payload) if payload else {}
    except orjson.JSONDecodeError as error:
        raise TransportError(f"{request}: the response is not JSON: {payload[:200]!r}") from error
    if not isinstance(body, dict):
        raise TransportError(f"{request}: the response is not a JSON object")
    return body


def _response(received: aiohttp.ClientResponse, payload: bytes) -> Response:
    retry_after: float | None
    try:
        retry_after = float(received.headers["Retry-After"])
    except (KeyError, ValueError):
        retry_after = 1.0 if received.status == 429 else None
    warnings = warning_texts(received.headers.getall("Warning", ()))
    return Response(received.status, payload, warnings, received.reason or "", retry_after)
