"""Limit of sign-in attempts: each one costs the API server a TokenReview, for which the console pays."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Final

__all__ = ["ATTEMPTS", "ATTEMPTS_OF_ADDRESS", "SignInLimit"]

ATTEMPTS: Final = 60
ATTEMPTS_OF_ADDRESS: Final = 10
"""Attempts in a minute: of all addresses, and of one."""
_SECONDS: Final = 60.0


class SignInLimit:
    """Attempts of the last minute, by address.

    Parameters
    ----------
    clock
        Monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._attempts: deque[tuple[float, str]] = deque()

    def take(self, address: str) -> bool:
        """Record an attempt; return False if there were too many, which are not recorded."""
        now = self._clock()
        while self._attempts and self._attempts[0][0] <= now - _SECONDS:
            self._attempts.popleft()
        of_address = sum(each == address for _, each in self._attempts)
        if len(self._attempts) >= ATTEMPTS or of_address >= ATTEMPTS_OF_ADDRESS:
            return False
        self._attempts.append((now, address))
        return True
