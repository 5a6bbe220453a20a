"""TCP forwarder from one address to the ready replicas of a program, as a Service does.

Webhook configurations name one URL, and the replicas of a program each listen on a port of their own. TLS passes
through untouched. A replica that stops being ready gets no new connection; its established ones go on until either side
ends them. Without a ready replica a connection is closed at once, so that nobody waits for a timeout.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable

from trainyard.cluster.ports import HOST

__all__ = ["Forwarder"]

_CONNECT_TIMEOUT = 5.0
_BUFFER = 64 * 1024
"""Bytes that wait for a slow reader before its peer is read no further."""

_log = logging.getLogger(__name__)


class Forwarder:
    """One listening port in front of replicas on this machine.

    Parameters
    ----------
    port
        Port to listen on; 0 for any.
    limit
        Connections at the same time; further ones are closed at once.
    """

    def __init__(self, port: int, *, limit: int = 4096) -> None:
        self.port = port
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
        """Ports of the ready replicas; a change concerns new connections only."""
        return self._targets

    @targets.setter
    def targets(self, ports: Iterable[int]) -> None:
        self._targets = tuple(ports)

    async def start(self) -> None:
        """Listen, unless it does already.

        Raises
        ------
        OSError
            The port is taken.
        """
        if self._server is None:
            loop = asyncio.get_running_loop()
            self._server = await loop.create_server(lambda: _Client(self), HOST, self.port, backlog=1024)
            self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """Stop listening and end every connection."""
        server, self._server = self._server, None
        if server is not None:
            server.close()
        for client in tuple(self._clients):
            client.abort()
        if server is not None:
            await server.wait_closed()

    def admit(self, client: _Client) -> bool:
        """Count a connection; False when there are too many."""
        if len(self._clients) >= self._limit:
            if not self._full:
                _log.warning("port %s: more than %s connections; further ones are closed", self.port, self._limit)
            self._full = True
            return False
        self._clients.add(client)
        return True

    def leave(self, client: _Client) -> None:
        """Forget a connection that ended."""
        self._clients.discard(client)
        self._full = self._full and len(self._clients) >= self._limit // 2

    async def connect(self, client: _Client) -> _Replica | None:
        """Connect to the next ready replica that accepts; None when none does."""
        loop = asyncio.get_running_loop()
        targets = self._targets
        self._next += 1
        for turn in range(len(targets)):
            port = targets[(self._next + turn) % len(targets)]
            try:
                async with asyncio.timeout(_CONNECT_TIMEOUT):
                    _, replica = await loop.create_connection(lambda: _Replica(client), HOST, port)
            except (OSError, TimeoutError):
                continue
            return replica
        return None


class _Side(asyncio.Protocol):
    """One of the two connections: what it receives is written to its peer, no faster than the peer reads."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.peer: _Side | None = None

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
        """End this side too: after what is still to be written, or at once."""
        if self.transport is not None:
            if aborted:
                self.transport.abort()
            else:
                self.transport.close()


class _Client(_Side):
    """The accepted connection. Nothing is read from it before a replica has accepted."""

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
        self.transport.pause_reading()
        self._connecting = asyncio.get_running_loop().create_task(self._connect())

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
        """Pass on that the client has sent everything; the answer may still come."""
        if self.peer is not None and self.peer.transport is not None and self.peer.transport.can_write_eof():
            self.peer.transport.write_eof()
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        self._forwarder.leave(self)
        if self._connecting is not None and self.peer is None:
            self._connecting.cancel()
        super().connection_lost(exc)

    def abort(self) -> None:
        """End it at once, the replica's side included."""
        self.finish(aborted=True)


class _Replica(_Side):
    """The connection to a replica; when it ends, its client's ends after what is still to be written."""

    def __init__(self, client: _Client) -> None:
        super().__init__()
        self.peer = client
