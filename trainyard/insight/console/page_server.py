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

from trainyard.connection_limits import ConnectionLimits
from trainyard.errors import TrainyardError
from trainyard.http_server import HttpServer
from trainyard.listening import bound_socket

LIMITS: Final = ConnectionLimits(
    handshake_seconds=10.0, idle_seconds=10.0, body_seconds=30.0, connections=512, of_address=128
)
"""Limits of a console in a cluster; behind an Ingress, all viewers have its address."""
_FIELD: Final = 32 << 10
"""Bytes of a line of a request's header: one contains a token."""


@asynccontextmanager
async def serving(
    app: web.Application,
    listening: socket.socket,
    end_streams: Callable[[], Awaitable[None]],
    *,
    limits: ConnectionLimits,
    end_seconds: float,
    tls: ssl.SSLContext | None = None,
) -> AsyncIterator[None]:
    """Serve pages.

    Parameters
    ----------
    app
        The pages.
    listening
        A bound socket.
    end_streams
        Ends the updates of the pages, which would keep the server from stopping.
    limits, end_seconds, tls
        Limits of the connections, time that requests have at the end, and TLS.
    """

    async def end(_: web.Application) -> None:
        await end_streams()

    app.on_shutdown.append(end)
    server = HttpServer(
        app,
        limits,
        end_seconds,
        max_line_size=_FIELD,
        max_field_size=_FIELD,
        auto_decompress=False,
        handler_cancellation=True,  # of updates to a page that is not open any more
    )
    await server.start(listening, tls)
    try:
        yield
    finally:
        await server.close()


async def terminated() -> None:
    """Wait for SIGTERM."""
    end = asyncio.Event()
    if threading.current_thread() is threading.main_thread():
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, end.set)
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
