"""HTTP server with limited connections."""

from __future__ import annotations

import asyncio
import socket
import ssl
from typing import Any, Final, cast

from aiohttp import web

from trainyard.connection_limits import ConnectionGuard, ConnectionLimits

_BACKLOG: Final = 1024


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
    options
        Further settings of `aiohttp.web.AppRunner`.
    """

    def __init__(self, app: web.Application, limits: ConnectionLimits, end_seconds: float, **options: Any) -> None:
        self._limits = limits
        self._guard = ConnectionGuard(app, limits)
        self._runner = web.AppRunner(
            app,
            access_log=None,
            shutdown_timeout=end_seconds,
            keepalive_timeout=limits.idle_seconds,
            lingering_time=1.0,  # for the rest of a body that nobody reads
            **options,
        )

    async def start(self, listening: socket.socket, tls: ssl.SSLContext | None = None) -> None:
        """Serve on a bound socket, which the server closes."""
        await self._runner.setup()
        self._server = await asyncio.get_running_loop().create_server(
            self._guard.factory(cast("web.Server", self._runner.server)),
            sock=listening,
            ssl=tls,
            backlog=_BACKLOG,
            ssl_handshake_timeout=None if tls is None else self._limits.handshake_seconds,
        )

    async def close(self) -> None:
        """Stop listening, close idle connections, and finish open requests."""
        self._server.close()
        await self._runner.cleanup()
