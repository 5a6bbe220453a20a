"""Number of unchanged scheduling sessions after which the scheduler is idle."""

from __future__ import annotations

import math

__all__ = ["sessions_at_rest"]

_QUIET = 4
_MISSED = 1e-6
"""Share of preemptions that may be missed."""


def sessions_at_rest(queues_of_preemption: int = 0) -> int:
    """Return the sessions in a row without a change after which there is none to come.

    An eviction that is on its way shows within four. Action preempt needs more: it goes through the queues in random
    order, and takes a pod from each gang that waits in a later queue than the first, which then preempts nothing in
    this session (volcano-sh/volcano#5140, present in v1.14.1).

    Parameters
    ----------
    queues_of_preemption
        Number of queues with jobs where a gang waits that action preempt may still help; 0 where there is none.
    """
    if queues_of_preemption < 2:
        return _QUIET
    return max(_QUIET, math.ceil(math.log(_MISSED) / math.log(1 - 1 / queues_of_preemption)))
