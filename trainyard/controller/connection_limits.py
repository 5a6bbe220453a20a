"""Limits of a server's connections: strangers cannot keep them open or take all of them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware
from aiohttp.web_protocol import RequestHandler

from trainyard.listening import client_key


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
    connections
        Number of connections; beyond it, one that waits for a request or its rest is closed for a new one: of the
        address with the most, the oldest that has not asked anything, else the oldest.
    """

    handshake_seconds: float = 15.0
    idle_seconds: float = 120.0
    connections: int = 2048


class ConnectionGuard:
    """Watches the connections of one server.

    Parameters
    ----------
    limits
        Its limits. The server itself observes `ConnectionLimits.idle_seconds` after a response.
    """

    def __init__(self, limits: ConnectionLimits) -> None:
        self._limits = limits
        self._waiting: dict[RequestHandler, asyncio.TimerHandle] = {}
        """Connections that have had no request, the oldest first, and what closes them."""
        self._requests: dict[RequestHandler, web.Request] = {}

    def middleware(self) -> Middleware:
        """Return the middleware that marks a connection as used, and knows its request until it is answered."""

        @web.middleware
        async def note(request: web.Request, handler: Handler) -> web.StreamResponse:
            connection = request.protocol
            if (timer := self._waiting.pop(connection, None)) is not None:
                timer.cancel()
            self._requests[connection] = request
            try:
                return await handler(request)
            finally:
                del self._requests[connection]

        return note

    def factory(self, server: web.Server) -> Callable[[], asyncio.Protocol]:
        """Return the protocol factory of new connections."""
        loop = asyncio.get_running_loop()

        def connect() -> asyncio.Protocol:
            if max(len(server.connections), len(self._waiting)) >= self._limits.connections:
                idle = [*self._waiting, *filter(self._waits_again, server.connections)]
                if not idle:
                    return _Refused()
                self._end(_first_of_largest(idle))
            made = server()
            self._waiting[made] = loop.call_later(self._limits.idle_seconds, self._end, made)
            return made

        return connect

    def _waits_again(self, connection: RequestHandler) -> bool:
        """Return whether a connection waits for a further request, or for the rest of one."""
        if connection.transport is None or connection in self._waiting:
            return False
        request = self._requests.get(connection)
        return request is None or not request.content.is_eof()

    def _end(self, connection: RequestHandler) -> None:
        if (timer := self._waiting.pop(connection, None)) is not None:
            timer.cancel()
        connection.force_close()


def _first_of_largest(connections: Sequence[RequestHandler]) -> RequestHandler:
    """Return the first connection of the address with the most of them, so that strangers replace their own."""
    numbers = Counter(map(_address, connections))
    return max(connections, key=lambda each: numbers[_address(each)])


def _address(connection: RequestHandler) -> str:
    """Return what stands for the client; connections whose handshake is not complete are of one."""
    peer = None if connection.transport is None else connection.transport.get_extra_info("peername")
    return client_key(peer[0]) if peer else ""


class _Refused(asyncio.Protocol):
    """A connection that is closed at once."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        transport.abort()
