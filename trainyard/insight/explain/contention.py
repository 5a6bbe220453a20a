"""Contention in one queue: whether gangs that are served first take the places, or the limits, of another."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from trainyard.insight.explain.fabric_limits import fits_fabric
from trainyard.insight.explain.job_state import JobState
from trainyard.insight.explain.node_table import NodeFacts, left_after
from trainyard.scheduling.queues.amounts import Amounts, total
from trainyard.scheduling.queues.queued_gangs import QueuedJob

_EXAMINED: Final = 50
"""Gangs ahead that are examined."""


def is_contended(job_state: JobState, ahead: Iterable[QueuedJob]) -> bool:
    """Return whether gangs of the queue that are served first are in the way of a gang.

    The scheduler skips a gang that does not fit, and places those behind it. So a gang ahead is in the way if it takes
    what is free, or if nothing is free and it takes what becomes free.

    Parameters
    ----------
    job_state
        The gang.
    ahead
        Gangs of its queue that are served first, in the scheduler's order.
    """
    table = job_state.view.table
    nodes = [node for node in table.nodes.values() if node.usable] if table.knows_free else None
    empty = nodes and [node.emptied for node in nodes]
    others = [each for each in _situations(job_state, ahead) if _fits(job_state, each, empty, used={})]
    if not others or not _fits(job_state, job_state, empty, used={}):
        return False
    shares = job_state.view.shares
    taken = {name: dict(shares.used(name)) for name in shares.chain(job_state.queue)}
    if not _fits(job_state, job_state, nodes, taken):
        return True
    for other in others:
        if not _fits(job_state, other, nodes, taken):
            continue
        taken = {name: total((own, other.request)) for name, own in taken.items()}
        nodes = nodes and left_after(other.demands, nodes)
        if not _fits(job_state, job_state, nodes, taken):
            return True
    return False


def _situations(job_state: JobState, ahead: Iterable[QueuedJob]) -> list[JobState]:
    found = []
    for job in list(ahead)[:_EXAMINED]:
        namespace, _, name = job.name.partition("/")
        if members := job_state.index.members.get((namespace, name)):
            found.append(JobState(job_state.view, members[0]))
    return found


def _fits(job_state: JobState, other: JobState, nodes: Sequence[NodeFacts] | None, used: dict[str, Amounts]) -> bool:
    """Return whether a gang fits the nodes, if they are known, and the limits of the queue of the job_state."""
    shares = job_state.view.shares
    for name in shares.chain(job_state.queue):
        limit, own = shares.limits.get(name, {}), used.get(name, {})
        if any(
            own.get(each, 0) + amount > limit.get(each, amount + own.get(each, 0))
            for each, amount in other.request.items()
        ):
            return False
    return bool(other.demands) and (nodes is None or fits_fabric(other, nodes))
