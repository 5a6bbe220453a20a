"""Measure a piece of work: its calls, which a machine's load does not change, or its CPU seconds."""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable


def calls(work: Callable[[], object]) -> int:
    """Return the number of function calls, those of C included.

    The garbage collector rests meanwhile: it would call the finalizers of what other tests left behind.
    """
    counted = 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal counted
        counted += event in ("call", "c_call")

    gc.disable()  # without a collection before: it takes longer than the work, among the objects of 10,000 tests
    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
        gc.enable()
    return counted


def cpu_seconds(work: Callable[[], object]) -> float:
    """Return the CPU seconds, to compare with those of less work: the least of three runs."""
    seconds = []
    for _ in range(3):
        began = time.process_time()
        work()
        seconds.append(time.process_time() - began)
    return min(seconds)
