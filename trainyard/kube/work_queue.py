"""Work queue: deduplicated keys, processed once at a time, retried with backoff."""

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

_LONGEST_TIMER = 86_400.0
_SPARE_DELAYS = 64
_TURN = 8
"""Every n-th key comes from the least urgent lane."""
K = TypeVar("K", bound=Hashable)


class QueueClosedError(Exception):
    """The queue was closed."""


class WorkQueue(Generic[K]):
    """client-go's work queue contract for one event loop.

    A key added while it waits is queued once; a key added while it is processed is queued again afterwards. Lanes have
    priorities: lane 0 is served before lane 1, except that every eighth key comes from the least urgent lane that is
    not empty, so that a flooded lane does not starve the others. A disabled queue ignores and drops all keys, so that
    a process that is not the leader needs no memory for them.

    Parameters
    ----------
    lanes
        Number of priority lanes.
    base, maximum
        Bounds of the per-key backoff of `retry`, in seconds.
    enabled
        Initial state; see `enable`.
    clock
        Monotonic seconds.
    uniform
        Source of randomness for the backoff.
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
        """Return the number of keys that are ready."""
        return sum(map(len, self._lanes))

    @property
    def processing(self) -> int:
        """Number of keys that are being processed."""
        return len(self._processing)

    @property
    def delayed(self) -> int:
        """Number of keys with a delay."""
        return len(self._due)

    @property
    def enabled(self) -> bool:
        """Whether keys can be added."""
        return self._enabled and not self._closed

    def enable(self) -> None:
        """Accept keys from now on; the caller adds the keys that are already due."""
        self._enabled = True

    def disable(self) -> None:
        """Drop all keys that are not being processed, their delays and failures; ignore new keys until `enable`."""
        self._enabled = False
        for ready in self._lanes:
            ready.clear()
        self._delayed.clear()
        for entries in (self._waiting, self._due, self._backoffs):
            entries.clear()

    def failures(self, key: K) -> int:
        """Return the number of retries of a key since `forget`."""
        backoff = self._backoffs.get(key)
        return backoff.failures if backoff else 0

    def add(self, key: K, *, lane: int = 0) -> bool:
        """Queue a key; return False if it is already queued in the same or a more urgent lane."""
        if not self.enabled:
            return False
        queued = self._waiting.get(key)
        if queued is not None and queued <= lane:
            return False
        self._waiting[key] = lane
        if key not in self._processing:
            if queued is not None:
                del self._lanes[queued][key]
            self._lanes[lane][key] = None
            self._wake()
        return True

    def add_after(self, key: K, delay: float, *, lane: int = 0) -> None:
        """Queue a key after a delay in seconds; of several delays, the shortest counts, with its lane."""
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
        """Queue a key after its backoff; return the delay in seconds."""
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
        """Remove a key of a deleted object, with its failures and delays."""
        self.forget(key)
        lane = self._waiting.pop(key, None)
        if lane is not None:
            self._lanes[lane].pop(key, None)
        self._due.pop(key, None)
        self._compact()

    def pop(self) -> K | None:
        """Return the next ready key, or None."""
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
        """Wait for the next key; call `done` after processing it.

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
        """Mark a key as processed; queue it again if it was added meanwhile."""
        self._processing.discard(key)
        lane = self._waiting.get(key)
        if lane is not None:
            self._lanes[lane][key] = None
            self._wake()

    def close(self) -> None:
        """Close the queue and wake all waiting workers."""
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
        """Drop superseded delays once they are the majority."""
        if len(self._delayed) > 2 * len(self._due) + _SPARE_DELAYS:
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
