"""TCP forwarder from one address to the ready replicas of a program, as a Service does.

A webhook configuration names one URL, and each replica of a program listens on its own port. TLS is passed through. A
replica that is not ready gets no new connections; established ones continue until either side closes them. Without a
ready replica connections are closed at once, so that clients do not wait for a timeout.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable

from trainyard.local.cluster.host_address import HOST

_CONNECT_TIMEOUT = 5.0
_BUFFER = 64 * 1024
"""Bytes buffered for a slow reader before reading from its peer is paused."""

_log = logging.getLogger(__name__)


class Forwarder:
    """One listening port in front of replicas on this machine.

    Parameters
    ----------
    port
        Port to listen on; 0: any.
    limit
        Maximum concurrent connections; further ones are closed at once.
    host
        Address on which it and the replicas listen.
    """

    def __init__(self, port: int, *, limit: int = 4096, host: str = HOST) -> None:
        self.port, self.host = port, host
        self._limit = limit
        self._targets: tuple[int, ...] = ()
        self._next = 0
        self._server: asyncio.Server | None = None
        self._clients: set[_Client] = set()
        self._full = False

    @property
    def listening(self) -> bool:
        """Whether connections are accepted."""
        return self._server is not None

    @property
    def connections(self) -> int:
        """Number of open connections."""
        return len(self._clients)

    @property
    def targets(self) -> tuple[int, ...]:
        """Ports of the ready replicas; a change affects new connections only."""
        return self._targets

    @targets.setter
    def targets(self, ports: Iterable[int]) -> None:
        self._targets = tuple(ports)

    async def start(self) -> None:
        """Start to listen; idempotent.

        Raises
        ------
        OSError
            The port is taken.
        """
        if self._server is None:
            loop = asyncio.get_running_loop()
            self._server = await loop.create_server(lambda: _Client(self), self.host, self.port, backlog=1024)
            self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """Stop listening and close all connections."""
        server, self._server = self._server, None
        if server is not None:
            server.close()
        for client in tuple(self._clients):
            client.abort()
        if server is not None:
            await server.wait_closed()

    def admit(self, client: _Client) -> bool:
        """Register a connection; return False if the limit is reached."""
        if len(self._clients) >= self._limit:
            if not self._full:
                _log.warning("port %s: more than %s connections; further ones are closed", self.port, self._limit)
            self._full = True
            return False
        self._clients.add(client)
        return True

    def leave(self, client: _Client) -> None:
        """Unregister a closed connection."""
        self._clients.discard(client)
        self._full = self._full and len(self._clients) >= self._limit // 2

    async def connect(self, client: _Client) -> _Replica | None:
        """Connect to the next ready replica that accepts, round-robin; None if none does."""
        loop = asyncio.get_running_loop()
        targets = self._targets
        self._next += 1
        for turn in range(len(targets)):
            port = targets[(self._next + turn) % len(targets)]
            try:
                async with asyncio.timeout(_CONNECT_TIMEOUT):
                    _, replica = await loop.create_connection(lambda: _Replica(client), self.host, port)
            except (OSError, TimeoutError):
                continue
            return replica
        return None


class _Connection(asyncio.Protocol):
    """One of the two connections; copies received data to its peer, with back-pressure."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.peer: _Connection | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)  # noqa: S101
        transport.set_write_buffer_limits(high=_BUFFER)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        if self.peer is not None and self.peer.transport is not None:
            self.peer.transport.write(data)

    def pause_writing(self) -> None:
        if self.peer is not None and self.peer.transport is not None:
            self.peer.transport.pause_reading()

    def resume_writing(self) -> None:
        if self.peer is not None and self.peer.transport is not None:
            self.peer.transport.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        if self.peer is not None:
            self.peer.finish(aborted=exc is not None)

    def finish(self, *, aborted: bool) -> None:
        """Close this side too, after flushing, or at once if aborted."""
        if self.transport is not None:
            if aborted:
                self.transport.abort()
            else:
                self.transport.close()


class _Client(_Connection):
    """The client's connection; it is not read before a replica has accepted."""

    def __init__(self, forwarder: Forwarder) -> None:
        super().__init__()
        self._forwarder = forwarder
        self._connecting: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        if not self._forwarder.targets or not self._forwarder.admit(self):
            self.abort()
            return
        assert self.transport is not None  # noqa: S101
        loop = asyncio.get_running_loop()
        # A little later: up to Python 3.11.2 the transport starts to read after this function, paused or not.
        loop.call_soon(self.transport.pause_reading)
        self._connecting = loop.create_task(self._connect())

    async def _connect(self) -> None:
        replica = await self._forwarder.connect(self)
        if replica is None or self.transport is None or self.transport.is_closing():
            self.abort()
            if replica is not None:
                replica.finish(aborted=True)
            return
        self.peer = replica
        self.transport.resume_reading()

    def eof_received(self) -> bool:
        """Pass on a half-close: the client has sent everything, and the response may follow."""
        if self.peer is not None and self.peer.transport is not None and self.peer.transport.can_write_eof():
            self.peer.transport.write_eof()
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        self._forwarder.leave(self)
        if self._connecting is not None and self.peer is None:
            self._connecting.cancel()
        super().connection_lost(exc)

    def abort(self) -> None:
        """Close both sides at once."""
        self.finish(aborted=True)


class _Replica(_Connection):
    """The connection to a replica; when it closes, the client's is closed after flushing."""

    def __init__(self, client: _Client) -> None:
        super().__init__()
        self.peer = client
