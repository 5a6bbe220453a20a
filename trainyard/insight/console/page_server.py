"""Server of a console: a socket that is bound before anything is read, and an end that closes the pages' streams."""

from __future__ import annotations

import asyncio
import signal
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final

from aiohttp import web

from trainyard.errors import TrainyardError
from trainyard.http_server import ConnectionLimits, HttpServer
from trainyard.listening import bound_socket

LIMITS: Final = ConnectionLimits(handshake_seconds=10.0, idle_seconds=10.0, connections=512, of_address=128)
"""Limits of a console in a cluster; behind an Ingress, all viewers have its address."""
_LINE: Final = 32 << 10
"""Bytes of a line of a request's header: one contains a token."""


@asynccontextmanager
async def serving(
    app: web.Application,
    listening: socket.socket,
    end_updates: Callable[[], Awaitable[None]],
    limits: ConnectionLimits = LIMITS,
    end_seconds: float = 5.0,
    tls: ssl.SSLContext | None = None,
) -> AsyncIterator[None]:
    """Serve pages at a bound socket; at the end, their updates end first, which would keep the server from stopping."""

    async def end(_: web.Application) -> None:
        await end_updates()

    app.on_shutdown.append(end)
    lines = {"max_line_size": _LINE, "max_field_size": _LINE}
    # A request ends with its connection: an update would go on for a page that is not open any more.
    server = HttpServer(app, limits, end_seconds, cancels=True, auto_decompress=False, **lines)
    await server.start(listening, tls)
    try:
        yield
    finally:
        await server.close()


async def terminated() -> None:
    """Wait for SIGTERM or SIGINT; the latter also where a shell has started the command in the background."""
    end = asyncio.Event()
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, end.set)
    await end.wait()


def bound(host: str, port: int) -> socket.socket:
    """Return a bound socket; port 0: a free one.

    Raises
    ------
    TrainyardError
        The port cannot be used.
    """
    try:
        return bound_socket(host, port)
    except (OSError, OverflowError) as error:
        raise TrainyardError(f"Port {port} of {host} cannot be used: {error}", fix="set another --port") from error
