"""Limits of a server's connections: strangers cannot keep them open or take all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware
from aiohttp.web_protocol import RequestHandler


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
        Number of connections; beyond it, the oldest one that had no request yet is closed for a new one.
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
        """Connections without a request, the oldest first, and what closes them."""

    def middleware(self) -> Middleware:
        """Return the middleware that marks a connection as used."""

        @web.middleware
        async def note(request: web.Request, handler: Handler) -> web.StreamResponse:
            if (timer := self._waiting.pop(request.protocol, None)) is not None:
                timer.cancel()
            return await handler(request)

        return note

    def factory(self, server: web.Server) -> Callable[[], asyncio.Protocol]:
        """Return the protocol factory of new connections."""
        loop = asyncio.get_running_loop()

        def connect() -> asyncio.Protocol:
            if max(len(server.connections), len(self._waiting)) >= self._limits.connections:
                if not self._waiting:
                    return _Refused()
                self._end(next(iter(self._waiting)))
            made = server()
            self._waiting[made] = loop.call_later(self._limits.idle_seconds, self._end, made)
            return made

        return connect

    def _end(self, connection: RequestHandler) -> None:
        self._waiting.pop(connection).cancel()
        connection.force_close()


class _Refused(asyncio.Protocol):
    """A connection that is closed at once."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        transport.abort()
