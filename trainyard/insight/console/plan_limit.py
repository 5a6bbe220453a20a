"""Limit of plans: each one computes for seconds, which would take the processor from other pages."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from aiohttp import web

MAX_SETTINGS: Final = 1 << 20
CLUSTER_SETTINGS: Final = 128 << 10
"""Bytes of a pasted settings file: in the console of one viewer, and of several."""
_PLANS: Final = 2


class PlanLimit:
    """Plans at the same time: one of each owner, and two in all.

    Parameters
    ----------
    size
        Bytes of a settings file.
    """

    def __init__(self, size: int = MAX_SETTINGS) -> None:
        self.size = size
        self._owners: set[object] = set()
        self._lock = threading.Lock()

    @contextmanager
    def one(self, owner: object) -> Iterator[None]:
        """Count a plan of an owner, in the thread that computes it: that goes on when the request ends.

        Raises
        ------
        HTTPTooManyRequests
            There are too many.
        """
        with self._lock:
            if owner in self._owners or len(self._owners) >= _PLANS:
                raise web.HTTPTooManyRequests(text="Other plans are computed now. Try again.")
            self._owners.add(owner)
        try:
            yield
        finally:
            self._owners.discard(owner)
