"""Limit of sign-in attempts: each one costs the API server a TokenReview, for which the console pays."""

from __future__ import annotations

import hashlib
import time
from collections import deque
from collections.abc import Callable
from typing import Final

ATTEMPTS: Final = 60
ATTEMPTS_OF_ADDRESS: Final = 10
"""Attempts in a minute: of all addresses, and of one."""
ATTEMPTS_OF_ACCEPTED: Final = 3
"""Attempts in a minute with a token that was accepted before, beside those of its address."""
_SECONDS: Final = 60.0
_ACCEPTED: Final = 1000


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
        self._accepted: dict[bytes, deque[float]] = {}

    def take(self, address: str, token: str) -> bool:
        """Record an attempt; return False if there were too many, which are not recorded.

        A token that was accepted before has attempts of its own, which others cannot use up.
        """
        now = self._clock()
        while self._attempts and self._attempts[0][0] <= now - _SECONDS:
            self._attempts.popleft()
        of_address = sum(each == address for _, each in self._attempts)
        if len(self._attempts) < ATTEMPTS and of_address < ATTEMPTS_OF_ADDRESS:
            self._attempts.append((now, address))
            return True
        of_token = self._accepted.get(_digest(token))
        if of_token is None or (len(of_token) == ATTEMPTS_OF_ACCEPTED and of_token[0] > now - _SECONDS):
            return False
        of_token.append(now)
        return True

    def accept(self, token: str) -> None:
        """Record that a token was accepted; of many, the oldest are forgotten."""
        digest = _digest(token)
        self._accepted[digest] = self._accepted.pop(digest, deque(maxlen=ATTEMPTS_OF_ACCEPTED))
        while len(self._accepted) > _ACCEPTED:
            del self._accepted[next(iter(self._accepted))]


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()
