"""Number of unchanged scheduling sessions after which the scheduler is idle."""

from __future__ import annotations

import math

_SESSIONS = 4
_MISS_PROBABILITY = 1e-6
"""Accepted probability of missing a preemption."""


def idle_sessions(queues_of_preemption: int = 0) -> int:
    """Return the number of consecutive unchanged sessions after which the scheduler is idle.

    An eviction in progress is visible within four sessions. Action preempt needs more: it visits the queues in random
    order, and removes a pod from each gang that waits in a queue after the first one, which then preempts nothing in
    this session (volcano-sh/volcano#5140, present in v1.14.1).

    Parameters
    ----------
    queues_of_preemption
        Number of queues with jobs if a gang waits for which action preempt may still evict others; else 0.
    """
    if queues_of_preemption < 2:
        return _SESSIONS
    return max(_SESSIONS, math.ceil(math.log(_MISS_PROBABILITY) / math.log(1 - 1 / queues_of_preemption)))
