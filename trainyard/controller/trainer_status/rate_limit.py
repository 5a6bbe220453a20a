"""Rate limit per key with bounded memory."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
_KEYS = 10_000


class RateLimit(Generic[K]):
    """Token buckets by key; above the size limit, the least recently used bucket is dropped (and so refilled).

    Parameters
    ----------
    rate
        Tokens per second.
    burst
        Size of a bucket.
    clock
        Monotonic clock in seconds.
    """

    def __init__(self, rate: float, burst: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate = rate
        self._burst = burst
        self._clock = clock
        self._buckets: OrderedDict[K, tuple[float, float]] = OrderedDict()

    def exhausted(self, key: K) -> bool:
        """Return whether a key has no token left."""
        return self._level(key) < 1

    def take(self, key: K) -> bool:
        """Take a token; return False if none is left."""
        level = self._level(key)
        if level < 1:
            return False
        self._buckets[key] = level - 1, self._clock()
        self._buckets.move_to_end(key)
        while len(self._buckets) > _KEYS:
            self._buckets.popitem(last=False)
        return True

    def _level(self, key: K) -> float:
        level, since = self._buckets.get(key, (float(self._burst), 0.0))
        return min(self._burst, level + (self._clock() - since) * self._rate)
