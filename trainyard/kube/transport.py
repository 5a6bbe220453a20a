"""HTTP to one API server: credentials, fencing, throttling; never repeats a request that could write twice."""

from __future__ import annotations

import asyncio
import copy
import math
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import orjson

from trainyard.kube.credentials import Connection, Credential
from trainyard.kube.decoding import decoded
from trainyard.kube.errors import ApiError, CredentialsError, FencedError, TransportError
from trainyard.kube.resource import Object, Resource

__all__ = ["JSON", "Transport"]

JSON = "application/json"
_READS = ("GET", "HEAD")
_LEAST_SECONDS = 0.5
_IDLE_SECONDS = 15.0


class Transport:
    """The connections to one API server; see `trainyard.kube.client.Client` for the parameters."""

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
        self._sessions: list[aiohttp.ClientSession] = []
        self._separate: list[Transport] = []

    def fenced(self, remaining: Callable[[], float]) -> Transport:
        """Return a view that shares the connections and sends no write that may outlive ``remaining()`` seconds.

        The time is asked for at each sending, so a repetition after 429 or 401 is fenced like the first attempt, and a
        renewal in between lengthens it. The limit goes to the server too (``timeout``), which then drops the request.
        """
        view = copy.copy(self)
        view._remaining = remaining
        return view

    def separate(self, **changes: Any) -> Transport:
        """Return a transport with connections and slots of its own, closed with this one."""
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
        """Send one request, again while the server is throttling, and return the decoded answer."""
        data = None if body is None else orjson.dumps(body)
        headers = {"Content-Type": content_type} if data is not None else {}
        if accept:
            headers["Accept"] = accept
        if method in _READS:  # a long page over a slow link takes its time, as long as something arrives
            limits = aiohttp.ClientTimeout(total=None, sock_connect=self._timeout, sock_read=self._timeout)
        else:
            limits = aiohttp.ClientTimeout(total=self._timeout)
        give_up = time.monotonic() + self._patience
        while True:
            async with self._slots:
                response = await self._send(
                    method, path, resource, query=query, data=data, headers=headers, limits=limits
                )
                try:
                    payload = await response.read()
                except (aiohttp.ClientError, TimeoutError, OSError) as error:
                    raise TransportError(f"{method} {path}: {str(error) or type(error).__name__}") from error
                finally:
                    response.release()
            if response.status < 400:
                return _answer(payload, f"{method} {path}")
            failure = _failure(response, payload)
            wait = failure.retry_after
            if failure.status != 429 or wait is None or time.monotonic() + wait > give_up:
                raise failure
            await asyncio.sleep(wait)

    @asynccontextmanager
    async def stream(
        self, path: str, *, resource: Resource, query: Mapping[str, str]
    ) -> AsyncIterator[aiohttp.StreamReader]:
        """Open a response of unknown length; leaving the context cuts it."""
        limits = aiohttp.ClientTimeout(total=None, sock_connect=self._timeout)
        try:
            async with asyncio.timeout(self._timeout):
                response = await self._send("GET", path, resource, query=query, data=None, headers={}, limits=limits)
        except TimeoutError as error:
            raise TransportError(f"GET {path}: no answer within {self._timeout:g} s") from error
        try:
            if response.status != 200:
                raise _failure(response, await response.read())
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
        headers: Mapping[str, str],
        limits: aiohttp.ClientTimeout,
    ) -> aiohttp.ClientResponse:
        credentials = self._connection.credentials
        presented = await credentials.current()
        parts: dict[str, Any] = {"query": query, "data": data, "headers": headers, "limits": limits}
        response = await self._once(method, path, resource, presented, **parts)
        if response.status == 401:
            response.release()
            newer = await credentials.current(refused=presented)
            if newer is not presented:
                response = await self._once(method, path, resource, newer, **parts)
        if response.status == 401:
            response.release()
            raise CredentialsError(
                f"{method} {path}: the API server refuses the credentials of this process (401)",
                fix="Renew the token, certificate or plug-in of the kubeconfig",
            )
        return response

    async def _once(
        self, method: str, path: str, resource: Resource | None, presented: Credential, **parts: Any
    ) -> aiohttp.ClientResponse:
        query, limits = parts["query"], parts["limits"]
        if method not in _READS and self._remaining is not None:
            left = self._remaining()
            if left < _LEAST_SECONDS:
                raise FencedError(f"{method} {path} was not sent: this process leads for {max(0.0, left):.1f} s only")
            total = min(left, limits.total)
            query = {**(query or {}), "timeout": f"{total:.3f}s"}
            limits = aiohttp.ClientTimeout(total=total, ceil_threshold=math.inf)
        bearer = {"Authorization": f"Bearer {presented.token}"} if presented.token else {}
        try:
            response = await self._session().request(
                method,
                self._connection.server + path,
                params=query,
                data=parts["data"],
                headers={**parts["headers"], **bearer},
                timeout=limits,
                ssl=presented.tls if presented.tls is not None else True,
            )
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            self._observe(method, str(resource or path), 0)
            raise TransportError(f"{method} {path}: {str(error) or type(error).__name__}") from error
        self._observe(method, str(resource or path), response.status)
        return response

    def _session(self) -> aiohttp.ClientSession:
        if not self._sessions:
            # Idle connections are kept for less time than a request waits: where all went silent at once, those that
            # are not in use are gone when the first requests fail, and no second request meets a dead one.
            connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=_IDLE_SECONDS)
            self._sessions.append(aiohttp.ClientSession(connector=connector, headers=self._headers))
        return self._sessions[0]


def _answer(payload: bytes, what: str) -> Object:
    try:
        body = decoded(payload) if payload else {}
    except orjson.JSONDecodeError as error:
        raise TransportError(f"{what}: the answer is not JSON: {payload[:200]!r}") from error
    if not isinstance(body, dict):
        raise TransportError(f"{what}: the answer is not an object")
    return body


def _failure(response: aiohttp.ClientResponse, payload: bytes) -> ApiError:
    try:
        status = orjson.loads(payload)
    except orjson.JSONDecodeError:
        status = None
    if not isinstance(status, dict):
        status = {"message": payload[:500].decode(errors="replace").strip()}
    retry_after: float | None
    try:
        retry_after = float(response.headers["Retry-After"])
    except (KeyError, ValueError):
        retry_after = 1.0 if response.status == 429 else None
    reason = status.get("reason") or response.reason or "Unknown"
    return ApiError(response.status, str(reason), str(status.get("message") or ""), retry_after=retry_after)
