"""HTTP servers of one process, shut down without losing requests.

Clients keep connections open, and closing a connection loses a request that is in flight. Each connection is therefore
closed by a response with ``Connection: close`` before the listeners close.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Mapping

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from trainyard.controller.configuration import WEBHOOK_TIMEOUT_SECONDS, Listener
from trainyard.errors import TrainyardError
from trainyard.http_server import ConnectionLimits, HttpServer
from trainyard.listening import bound_socket, url_host

_LOG = logging.getLogger(__name__)


class Servers:
    """Servers by name.

    Parameters
    ----------
    limits
        Limits of the connections of each server.
    """

    def __init__(self, limits: ConnectionLimits | None = None) -> None:
        self._limits = limits or ConnectionLimits()
        self._servers: dict[str, tuple[HttpServer, int]] = {}
        self._draining = False

    @property
    def ports(self) -> Mapping[str, int]:
        """Ports of the listening servers by name."""
        return {name: port for name, (_, port) in self._servers.items()}

    async def start(
        self, name: str, app: web.Application, listener: Listener, tls: ssl.SSLContext | None = None
    ) -> None:
        """Start a server.

        Raises
        ------
        TrainyardError
            If the server cannot listen on the address.
        """
        try:
            listening = bound_socket(listener.host, listener.port)
        except OSError as error:
            raise TrainyardError(
                f"{name}: cannot listen on {url_host(listener.host)}:{listener.port}: {error.strerror}",
                fix=f"Free the port or choose another with --{name}-port",
            ) from error
        app.middlewares.append(self._close_when_draining())
        server = HttpServer(app, self._limits, WEBHOOK_TIMEOUT_SECONDS)
        await server.start(listening, tls)
        self._servers[name] = server, listening.getsockname()[1]
        _LOG.info("%s listens on %s:%d", name, url_host(listener.host) or "*", self.ports[name])

    def drain(self) -> None:
        """Close each connection after its next response, so that clients reconnect elsewhere; keep listening."""
        self._draining = True

    async def close(self) -> None:
        """Stop listening, close idle connections, and finish open requests."""
        self.drain()
        while self._servers:
            _, (server, _) = self._servers.popitem()
            await server.close()

    def _close_when_draining(self) -> Middleware:
        @web.middleware
        async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
            try:
                response = await handler(request)
            except web.HTTPException as error:
                if self._draining:
                    error.force_close()
                raise
            if self._draining:
                response.force_close()
            return response

        return middleware
