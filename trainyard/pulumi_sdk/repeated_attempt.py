"""Repeated attempt of one operation: the program runs again after a part of the change is made.

The changes of queues are reviewed before the first attempt. A later one sees queues that the first has changed: the
controller opens a retired queue again as soon as the Platform does not list it any more.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["is_repeated", "repeated_attempt"]

_repeated = False


@contextmanager
def repeated_attempt() -> Iterator[None]:
    """Mark the runs of the program inside as repetitions."""
    global _repeated  # The program runs in a thread of the SDK, which context variables do not reach.
    _repeated = True
    try:
        yield
    finally:
        _repeated = False


def is_repeated() -> bool:
    """Return whether the program runs again in one operation."""
    return _repeated
