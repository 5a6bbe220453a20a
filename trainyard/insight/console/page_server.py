"""Server of a console: a socket that is bound before anything is read, and an end that closes the pages' streams."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Awaitable, Callable

import uvicorn

from trainyard.errors import TrainyardError
from trainyard.listening import bound_socket


class PageServer(uvicorn.Server):
    """Server of pages that receive updates.

    Parameters
    ----------
    config
        What is served, and how.
    close
        Ends the updates of the pages, which would keep the server from stopping.
    ready
        Called once it serves.
    """

    def __init__(self, config: uvicorn.Config, close: Callable[[], Awaitable[None]], ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._close = close
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to serve, and say so."""
        await super().startup(sockets)
        self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End the updates, and stop."""
        with contextlib.suppress(Exception):
            await self._close()
        await super().shutdown(sockets)


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
