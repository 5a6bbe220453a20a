"""Exponential backoff."""

from __future__ import annotations

import random
from collections.abc import Callable


class Backoff:
    """Exponential backoff with jitter: a random delay between half of a doubling bound and the bound.

    Parameters
    ----------
    base, maximum
        First and largest bound, in seconds.
    uniform
        Source of randomness: a number between 0 and 1.
    """

    def __init__(self, base: float, maximum: float, *, uniform: Callable[[], float] = random.random) -> None:
        self._base = base
        self._maximum = maximum
        self._uniform = uniform
        self.failures = 0

    def next(self) -> float:
        """Count one more failure and return the seconds to wait."""
        bound = min(self._maximum, self._base * 2.0 ** min(self.failures, 62))
        self.failures += 1
        return bound * (0.5 + 0.5 * self._uniform())

    def reset(self) -> None:
        """Reset the failure count after a success."""
        self.failures = 0
