"""Sources of a console's state: the interface, and a recorded file."""

from __future__ import annotations

import asyncio
import datetime
from typing import Protocol

from trainyard.cluster_state.observed import Observed
from trainyard.errors import TrainyardError


class StateSource(Protocol):
    """Source of the state that all viewers share."""

    @property
    def name(self) -> str:
        """Text for the pages."""

    @property
    def fault(self) -> str:
        """Why the state may be old; empty: it is not."""

    @property
    def confirmed(self) -> datetime.datetime | None:
        """Time at which the last state of `observed` was known to be current, or None for that of the state."""

    @property
    def requests(self) -> int:
        """Requests to the API server so far."""

    async def start(self) -> None:
        """Wait until there is a first state."""

    async def close(self) -> None:
        """End everything that was started."""

    async def changed(self) -> None:
        """Wait until the state has changed since the last `observed`."""

    @property
    def losses(self) -> int:
        """How many times less could be read than before."""

    async def lost(self) -> None:
        """Wait until less can be read than in the last `observed`."""

    def observed(self) -> Observed:
        """Return the state."""

    async def logs(self, namespace: str, pod: str, container: str) -> str:
        """Return the last lines that a container has written."""


class RecordedSource:
    """State of a file of `trainyard snapshot save`, which does not change.

    Parameters
    ----------
    observed
        The state.
    name
        Name of the file.
    """

    fault: str = ""
    confirmed: datetime.datetime | None = None
    requests = 0
    losses = 0

    def __init__(self, observed: Observed, name: str) -> None:
        self._observed = observed
        self.name = name

    async def start(self) -> None:
        """Return at once."""

    async def close(self) -> None:
        """Return at once."""

    async def changed(self) -> None:
        """Wait until cancelled."""
        await asyncio.Event().wait()

    async def lost(self) -> None:
        """Wait until cancelled."""
        await asyncio.Event().wait()

    def observed(self) -> Observed:
        """Return the state."""
        return self._observed

    async def logs(self, namespace: str, pod: str, container: str) -> str:
        """Raise an error: a snapshot has no logs."""
        raise TrainyardError("A snapshot has no logs", fix="open the console on the cluster")
