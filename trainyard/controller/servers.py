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

__all__ = ["Servers"]

_LOG = logging.getLogger(__name__)


class Servers:
    """Servers by name."""

    def __init__(self) -> None:
        self._runners: dict[str, web.AppRunner] = {}
        self._draining = False

    @property
    def ports(self) -> Mapping[str, int]:
        """Ports of the listening servers by name."""
        return {name: runner.addresses[0][1] for name, runner in self._runners.items()}

    async def start(
        self, name: str, app: web.Application, listener: Listener, tls: ssl.SSLContext | None = None
    ) -> None:
        """Start a server.

        Raises
        ------
        TrainyardError
            If the server cannot listen on the address.
        """
        app.middlewares.append(self._close_when_draining())
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=WEBHOOK_TIMEOUT_SECONDS)
        await runner.setup()
        try:
            await web.TCPSite(runner, listener.host, listener.port, ssl_context=tls).start()
        except OSError as error:
            await runner.cleanup()
            raise TrainyardError(
                f"{name}: cannot listen on {listener.host}:{listener.port}: {error.strerror}",
                fix=f"Free the port or choose another with --{name}-port",
            ) from error
        self._runners[name] = runner
        _LOG.info("%s listens on %s:%d", name, listener.host, self.ports[name])

    def drain(self) -> None:
        """Close each connection after its next response, so that clients reconnect elsewhere; keep listening."""
        self._draining = True

    async def close(self) -> None:
        """Stop listening, close idle connections, and finish open requests."""
        self.drain()
        while self._runners:
            _, runner = self._runners.popitem()
            await runner.cleanup()

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
