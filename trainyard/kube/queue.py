"""Work queue: each key at most once at a time, never lost, retried with backoff."""

from __future__ import annotations

import asyncio
import heapq
import itertools
import random
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from trainyard.kube.backoff import Backoff

__all__ = ["QueueClosedError", "WorkQueue"]

_LONGEST_TIMER = 86_400.0
_SPARE_TIMES = 64
_TURN = 8
"""One key of so many comes from the least urgent lane."""
K = TypeVar("K", bound=Hashable)


class QueueClosedError(Exception):
    """The queue was closed and hands out no more work."""


class WorkQueue(Generic[K]):
    """The contract of client-go's work queue, for one event loop.

    A key that is added while it waits is there once; one that is added while it is worked on is handed out again
    afterwards. Lanes have priority: lane 0 is served before lane 1, but for every eighth key, which comes from the
    least urgent lane that has one: who floods the first lane does not stop the others. A disabled queue takes nothing
    in and holds nothing: what a process does not work on, as it does not lead, costs no memory.

    Parameters
    ----------
    lanes
        Number of priority lanes.
    base, maximum
        Bounds of the per-key backoff of `retry`, in seconds.
    enabled
        Whether it takes keys in from the start; see `enable`.
    clock
        Monotonic seconds.
    uniform
        Randomness of the backoff.
    """

    def __init__(
        self,
        *,
        lanes: int = 2,
        base: float = 0.005,
        maximum: float = 60.0,
        enabled: bool = True,
        clock: Callable[[], float] = time.monotonic,
        uniform: Callable[[], float] = random.random,
    ) -> None:
        self._lanes: list[OrderedDict[K, None]] = [OrderedDict() for _ in range(lanes)]
        self._waiting: dict[K, int] = {}
        self._processing: set[K] = set()
        self._delayed: list[tuple[float, int, K, int]] = []
        self._due: dict[K, float] = {}
        self._order = itertools.count()
        self._backoffs: dict[K, Backoff] = {}
        self._limits = (base, maximum, uniform)
        self._clock = clock
        self._getters: deque[asyncio.Future[None]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._enabled = enabled
        self._closed = False
        self._popped = 0

    def __len__(self) -> int:
        """Return how many keys are ready to be worked on."""
        return sum(map(len, self._lanes))

    @property
    def processing(self) -> int:
        """How many keys are being worked on."""
        return len(self._processing)

    @property
    def delayed(self) -> int:
        """How many keys wait for their time."""
        return len(self._due)

    @property
    def enabled(self) -> bool:
        """Whether it takes keys in."""
        return self._enabled and not self._closed

    def enable(self) -> None:
        """Take keys in from now on; the caller adds what is to be done already."""
        self._enabled = True

    def disable(self) -> None:
        """Drop every key that is not worked on, with its times and failures, and take none in until `enable`."""
        self._enabled = False
        for ready in self._lanes:
            ready.clear()
        self._delayed.clear()
        for held in (self._waiting, self._due, self._backoffs):
            held.clear()

    def failures(self, key: K) -> int:
        """Return how often a key was retried since it was last forgotten."""
        backoff = self._backoffs.get(key)
        return backoff.failures if backoff else 0

    def add(self, key: K, *, lane: int = 0) -> bool:
        """Ask for work on a key; return False where it was asked for already, at least as urgently."""
        if not self.enabled:
            return False
        held = self._waiting.get(key)
        if held is not None and held <= lane:
            return False
        self._waiting[key] = lane
        if key not in self._processing:
            if held is not None:
                del self._lanes[held][key]
            self._lanes[lane][key] = None
            self._wake()
        return True

    def add_after(self, key: K, delay: float, *, lane: int = 0) -> None:
        """Ask for work on a key after a delay in seconds; the earliest of several times counts, with its lane."""
        if delay <= 0:
            self.add(key, lane=lane)
            return
        due = self._clock() + delay
        if not self.enabled or due >= self._due.get(key, float("inf")):
            return
        self._due[key] = due
        heapq.heappush(self._delayed, (due, next(self._order), key, lane))
        self._compact()
        self._arm()

    def retry(self, key: K, *, at_least: float = 0.0) -> float:
        """Ask for work on a key after its backoff; return the delay in seconds."""
        if not self.enabled:
            return at_least
        base, maximum, uniform = self._limits
        delay = max(at_least, self._backoffs.setdefault(key, Backoff(base, maximum, uniform=uniform)).next())
        self.add_after(key, delay)
        return delay

    def forget(self, key: K) -> None:
        """Reset a key's backoff after a success."""
        self._backoffs.pop(key, None)

    def discard(self, key: K) -> None:
        """Keep nothing of a key that is gone for good: neither its failures nor a time to look at it."""
        self.forget(key)
        lane = self._waiting.pop(key, None)
        if lane is not None:
            self._lanes[lane].pop(key, None)
        self._due.pop(key, None)
        self._compact()

    def pop(self) -> K | None:
        """Take the next key that is ready, None where there is none."""
        self._promote()
        turn = self._popped % _TURN == _TURN - 1
        for ready in reversed(self._lanes) if turn else self._lanes:
            if ready:
                self._popped += 1
                key, _ = ready.popitem(last=False)
                del self._waiting[key]
                self._processing.add(key)
                return key
        return None

    async def get(self) -> K:
        """Wait for a key; call `done` after the work on it.

        Raises
        ------
        QueueClosedError
            After `close`.
        """
        while not self._closed:
            key = self.pop()
            if key is not None:
                return key
            self._arm()
            getter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._getters.append(getter)
            try:
                await getter
            except asyncio.CancelledError:
                if getter.done() and not getter.cancelled():
                    self._wake()
                raise
        raise QueueClosedError

    def done(self, key: K) -> None:
        """Say that the work on a key has ended; hands it out again if it was asked for meanwhile."""
        self._processing.discard(key)
        lane = self._waiting.get(key)
        if lane is not None:
            self._lanes[lane][key] = None
            self._wake()

    def close(self) -> None:
        """Hand out no more work and wake all waiting workers."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        while self._getters:
            self._wake()

    def _promote(self) -> None:
        now = self._clock()
        while self._delayed and self._delayed[0][0] <= now:
            due, _, key, lane = heapq.heappop(self._delayed)
            if self._due.get(key) == due:
                del self._due[key]
                self.add(key, lane=lane)

    def _compact(self) -> None:
        """Drop the times that no longer count, once they are the larger part."""
        if len(self._delayed) > 2 * len(self._due) + _SPARE_TIMES:
            self._delayed = [entry for entry in self._delayed if self._due.get(entry[2]) == entry[0]]
            heapq.heapify(self._delayed)

    def _arm(self) -> None:
        if not self._delayed or self._closed:
            return
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return
        if self._timer is not None:
            self._timer.cancel()
        wait = min(max(0.0, self._delayed[0][0] - self._clock()), _LONGEST_TIMER)
        self._timer = loop.call_later(wait, self._on_time)

    def _on_time(self) -> None:
        self._timer = None
        self._promote()
        self._arm()

    def _wake(self) -> None:
        while self._getters:
            getter = self._getters.popleft()
            if not getter.done():
                getter.set_result(None)
                return
