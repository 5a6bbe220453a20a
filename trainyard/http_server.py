"""HTTP server with limited connections: strangers cannot keep them open, take all of them, or fill the memory."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, cast

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.typedefs import Handler
from aiohttp.web_protocol import RequestHandler

from trainyard.listening import client_key

_BACKLOG: Final = 1024
_END_OF_HEAD: Final = b"\r\n\r\n"
_TOO_LARGE: Final = b"HTTP/1.1 431 Request Header Fields Too Large\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
_LOG = logging.getLogger(__name__)


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
        Time from the end of a request's header to the end of its body, and for which an answer may not be read.
    head_bytes
        Size of a request's header.
    connections, of_address
        Number of connections, of all clients and of one address; beyond it, one is closed for a new one: of the
        address with the most that wait for their client, the one that has waited longest.
    """

    handshake_seconds: float = 15.0
    idle_seconds: float = 120.0
    body_seconds: float = 30.0
    head_bytes: int = 64 << 10
    connections: int = 2048
    of_address: int = 1024


class HttpServer:
    """Server of one application.

    Parameters
    ----------
    app
        What is served.
    limits
        Limits of the connections.
    end_seconds
        Time that requests have at the end.
    cancels
        Whether a request ends with its connection.
    options
        Further settings of aiohttp's `RequestHandler`.
    """

    def __init__(
        self,
        app: web.Application,
        limits: ConnectionLimits,
        end_seconds: float,
        *,
        cancels: bool = False,
        **options: Any,
    ) -> None:
        app.middlewares.insert(0, _answer)
        app.on_response_prepare.append(_prepare)
        self._runner = web.AppRunner(app, shutdown_timeout=end_seconds, handler_cancellation=cancels)
        self._limits, self._options = limits, options

    async def start(self, listening: socket.socket, tls: ssl.SSLContext | None = None) -> None:
        """Serve on a bound socket, which the server closes."""
        await self._runner.setup()
        loop, server = asyncio.get_running_loop(), cast("web.Server", self._runner.server)
        self._server = await loop.create_server(
            lambda: _Connection(server, self._limits, loop=loop, **self._options),
            sock=listening,
            ssl=tls,
            backlog=_BACKLOG,
            ssl_handshake_timeout=None if tls is None else self._limits.handshake_seconds,
        )

    async def close(self) -> None:
        """Stop listening, close idle connections, and finish open requests."""
        self._server.close()
        await self._runner.cleanup()


class _Connection(RequestHandler):
    """A connection, which knows whether it waits for its client."""

    def __init__(self, server: web.Server, limits: ConnectionLimits, **options: Any) -> None:
        options |= {"keepalive_timeout": limits.idle_seconds, "access_log": None, "logger": _LOG}
        super().__init__(server, lingering_time=1.0, **options)  # for the rest of a body that nobody reads
        self._server, self._limits = server, limits
        self._answered: web.Request | None = None
        self._has_head, self._size, self._last = False, 0, b""
        self._unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Accept the connection, in place of one that waits if there are too many."""
        super().connection_made(transport)
        self._since = self._loop.time()
        self._key = client_key(self.peername[0] if self.peername else "")
        others = [each for each in self._server.connections if isinstance(each, _Connection) and each.connected]
        of_address = [each for each in others if each._key == self._key]
        if len(of_address) > self._limits.of_address:
            self._replace(of_address)
        elif len(others) > self._limits.connections:
            self._replace(others)

    def connection_lost(self, exc: BaseException | None) -> None:
        """End the deadline of an answer, too."""
        self._stop_waiting()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """Wait for the client to read its answer, and end the connection if it does not."""
        super().pause_writing()
        self._unread = self._loop.call_later(self._limits.body_seconds, self._end)

    def resume_writing(self) -> None:
        """Continue: the client has read."""
        self._stop_waiting()
        super().resume_writing()

    def data_received(self, data: bytes) -> None:
        """Read a part of a request, unless its header is too long."""
        if not self._has_head:
            self._size += len(data)
            joined = self._last + data  # its end may come in two parts
            self._has_head, self._last = _END_OF_HEAD in joined, joined[-len(_END_OF_HEAD) + 1 :]
            if not self._has_head and self._size > self._limits.head_bytes:
                if self.transport is not None:
                    self.transport.write(_TOO_LARGE)
                self.force_close()
        super().data_received(data)

    def expect_head(self) -> None:
        """Begin to measure a header."""
        self._has_head, self._size, self._last = False, 0, b""

    @contextmanager
    def answers(self, request: web.Request) -> Iterator[None]:
        """Note that a request is answered, and end the connection if its body does not arrive."""
        self._answered = request
        deadline = self._loop.call_later(self._limits.body_seconds, self._end_unless_read, request)
        try:
            yield
        finally:
            deadline.cancel()
            self._answered, self._since = None, self._loop.time()

    @property
    def _waits(self) -> bool:
        """Whether the client has to send something, or does not read what it receives."""
        return self.writing_paused or self._answered is None or not self._answered.content.is_eof()

    def _replace(self, connections: list[_Connection]) -> None:
        """End a connection that waits for its client, so that strangers replace their own; if none does, this one."""
        waiting = [each for each in connections if each is not self and each._waits]
        numbers = Counter(each._key for each in waiting)
        min(waiting, key=lambda each: (-numbers[each._key], each._since), default=self)._end()

    def _stop_waiting(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def _end_unless_read(self, request: web.Request) -> None:
        if not request.content.is_eof():
            self._end()

    def _end(self) -> None:
        transport = self.transport
        self.force_close()
        if transport is not None:
            transport.abort()


@web.middleware
async def _answer(request: web.Request, handler: Handler) -> web.StreamResponse:
    with cast("_Connection", request.protocol).answers(request):
        return await handler(request)


async def _prepare(request: web.Request, _: web.StreamResponse) -> None:
    if request.content.is_eof():
        cast("_Connection", request.protocol).expect_head()


def _without_content(record: logging.LogRecord) -> bool:
    """Keep what an invalid request contains out of the log: it may be a token."""
    if record.exc_info and isinstance(record.exc_info[1], HttpProcessingError):
        record.exc_info = None
    return True


_LOG.addFilter(_without_content)
