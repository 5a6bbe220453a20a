"""Limits of a server's connections: strangers cannot keep them open, take all of them, or fill the memory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, Final

from aiohttp import web
from aiohttp.typedefs import Handler
from aiohttp.web_protocol import RequestHandler

from trainyard.listening import client_key

_END_OF_HEAD: Final = b"\r\n\r\n"
_TOO_LARGE: Final = b"HTTP/1.1 431 Request Header Fields Too Large\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"


@dataclass(frozen=True)
class ConnectionLimits:
    """Limits of the connections of a server.

    Parameters
    ----------
    handshake_seconds
        Time of the TLS handshake.
    idle_seconds
        Time from a connection or response to the end of the next request's header. An API server and other clients
        in Go close idle connections after 90 s: they must do so first, because a request on its way would be lost.
    body_seconds
        Time from the end of a request's header to the end of its body.
    head_bytes
        Size of a request's header.
    connections, of_address
        Number of connections, of all clients and of one address; beyond it, the one that has waited longest for its
        client is closed for a new one.
    """

    handshake_seconds: float = 15.0
    idle_seconds: float = 120.0
    body_seconds: float = 30.0
    head_bytes: int = 64 << 10
    connections: int = 2048
    of_address: int = 1024


class ConnectionGuard:
    """Watches the connections of one server.

    Parameters
    ----------
    app
        What is served.
    limits
        Its limits. The server itself observes `ConnectionLimits.idle_seconds`.
    """

    def __init__(self, app: web.Application, limits: ConnectionLimits) -> None:
        self._limits = limits
        self._connections: dict[RequestHandler, _Connection] = {}
        app.middlewares.insert(0, self._answer)
        app.on_response_prepare.append(self._prepare)

    def factory(self, server: Callable[[], RequestHandler]) -> Callable[[], asyncio.Protocol]:
        """Return the protocol factory of new connections."""
        return lambda: _Connection(server(), self._connections, self._limits)

    @web.middleware
    async def _answer(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        connection = self._connections.get(request.protocol)
        with nullcontext() if connection is None else connection.answers(request):
            return await handler(request)

    async def _prepare(self, request: web.Request, _: web.StreamResponse) -> None:
        connection = self._connections.get(request.protocol)
        if connection is not None and request.content.is_eof():
            connection.expect_head()


class _Connection(asyncio.Protocol):
    """A connection, which knows whether it waits for its client."""

    def __init__(
        self, handler: RequestHandler, connections: dict[RequestHandler, _Connection], limits: ConnectionLimits
    ) -> None:
        self._handler = handler
        self._connections = connections
        self._limits = limits
        self._request: web.Request | None = None
        self._has_head, self._size, self._last = False, 0, b""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accept the connection, in place of one that waits if there are too many."""
        self._transport = transport
        self._since = asyncio.get_running_loop().time()
        peer: Any = transport.get_extra_info("peername")
        self._key = client_key(peer[0] if peer else "")
        everyone = list(self._connections.values())
        of_address = [each for each in everyone if each._key == self._key]
        self._connections[self._handler] = self
        self._handler.connection_made(transport)
        if len(of_address) >= self._limits.of_address:
            self._replace(of_address)
        elif len(everyone) >= self._limits.connections:
            self._replace(everyone)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._connections.pop(self._handler, None)
        self._handler.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Pass data on, unless a header is too long."""
        if not self._has_head:
            self._size += len(data)
            joined = self._last + data  # its end may come in two parts
            self._has_head, self._last = _END_OF_HEAD in joined, joined[-len(_END_OF_HEAD) + 1 :]
            if not self._has_head and self._size > self._limits.head_bytes:
                self._transport.write(_TOO_LARGE)
                self._handler.force_close()
                return
        self._handler.data_received(data)

    def eof_received(self) -> None:
        """Pass the end of the client's data on."""
        self._handler.eof_received()

    def pause_writing(self) -> None:
        """Let the answer wait for its client."""
        self._handler.pause_writing()

    def resume_writing(self) -> None:
        """Let the answer go on."""
        self._handler.resume_writing()

    def expect_head(self) -> None:
        """Begin to measure a header."""
        self._has_head, self._size, self._last = False, 0, b""

    @contextmanager
    def answers(self, request: web.Request) -> Iterator[None]:
        """Note that a request is answered, and end the connection if its body does not arrive."""
        loop = asyncio.get_running_loop()
        self._request = request
        deadline = loop.call_later(self._limits.body_seconds, self._end_unless_read, request)
        try:
            yield
        finally:
            deadline.cancel()
            self._request, self._since = None, loop.time()

    @property
    def _waits(self) -> bool:
        """Whether the client has to send something, and receives nothing."""
        if self._request is not None:
            return not self._request.content.is_eof()
        return not self._handler.writing_paused

    def _replace(self, connections: list[_Connection]) -> None:
        """End the connection that has waited longest for its client; if none waits, this one."""
        waiting = (each for each in connections if each._waits)
        min(waiting, key=lambda each: each._since, default=self)._end()

    def _end_unless_read(self, request: web.Request) -> None:
        if not request.content.is_eof():
            self._end()

    def _end(self) -> None:
        self._connections.pop(self._handler, None)
        self._transport.abort()
