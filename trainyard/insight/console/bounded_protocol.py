"""Connections of a console in a cluster: bounded in time until a request is complete, and in number."""

from __future__ import annotations

import asyncio
import time
from typing import Final

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from trainyard.listening import client_key

HEAD_SECONDS: Final = 10.0
BODY_SECONDS: Final = 30.0
"""Seconds until the head of a request is complete, and further ones until its body is, or until an answer is read."""
CONNECTIONS: Final = 512
OF_ADDRESS: Final = 128
"""Connections at the same time, of all addresses and of one; behind an Ingress, all viewers have its."""


class BoundedProtocol(H11Protocol):
    """HTTP of one connection.

    If there are too many, the one that has waited longest for a request ends, so that those who send requests, as
    probes do, are served while others only hold connections.
    """

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accept a connection, in place of one that waits if there are too many."""
        super().connection_made(transport)
        self._since = time.monotonic()
        self._phase: object = None
        self._deadline: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None
        self._await_rest()
        self._key = client_key(self.client[0] if self.client else "")
        of_address = [each for each in self._others() if each.key == self._key]
        if len(of_address) >= OF_ADDRESS:
            _end_oldest(of_address, self)
        elif len(self.connections) > CONNECTIONS:
            _end_oldest(self._others(), self)

    def connection_lost(self, exc: Exception | None) -> None:
        """End the deadline too."""
        for deadline in (self._deadline, self._unread):
            if deadline is not None:
                deadline.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Handle a part of a request."""
        super().data_received(data)
        self._await_rest()

    def pause_writing(self) -> None:
        """Wait for the client to read what it has asked for."""
        super().pause_writing()
        self._unread = self.loop.call_later(BODY_SECONDS, self.abort)

    def resume_writing(self) -> None:
        """Continue: the client has read."""
        if self._unread is not None:
            self._unread.cancel()
        super().resume_writing()

    @property
    def waits(self) -> bool:
        """Whether the client has to send something, and receives nothing, or does not read what it receives."""
        answered = self.cycle is None or self.cycle.response_complete
        return answered or self.conn.their_state is h11.SEND_BODY or self.flow.write_paused

    @property
    def key(self) -> str:
        """What stands for its client in the limit by address."""
        return self._key

    @property
    def since(self) -> float:
        """Time at which it was opened."""
        return self._since

    def abort(self) -> None:
        """End the connection at once."""
        self.connections.discard(self)
        self.transport.abort()

    def _others(self) -> list[BoundedProtocol]:
        return [each for each in self.connections if isinstance(each, BoundedProtocol) and each is not self]

    def _await_rest(self) -> None:
        """Set the deadline of what is not complete; parts of it do not move the deadline."""
        seconds = {h11.IDLE: HEAD_SECONDS, h11.SEND_BODY: BODY_SECONDS}
        phase = self.conn.their_state if self.conn.their_state in seconds else None
        if phase is self._phase:
            return
        self._phase = phase
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = self.loop.call_later(seconds[phase], self.abort) if phase is not None else None


def _end_oldest(connections: list[BoundedProtocol], newest: BoundedProtocol) -> None:
    """End the connection that has waited longest; if all are answered now, the newest."""
    waiting = (each for each in connections if each.waits)
    min(waiting, key=lambda each: each.since, default=newest).abort()
