"""Forecast for jobs under a queue tree: running, starting, waiting (with the reason), evicted, reclaimable.

Applies the scheduler's rules (`allocation`, `reclaim`) to totals, not to nodes, until nothing changes. What depends on
nodes, on the order of equal queues or on recorded amounts is an estimate, and so is every decision after it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from trainyard.scheduling.queues.allocation import Allocation, GangAllocation
from trainyard.scheduling.queues.amounts import Amounts
from trainyard.scheduling.queues.queue import DEFAULT, Queue
from trainyard.scheduling.queues.queued_gangs import QueuedJob
from trainyard.scheduling.queues.reclaim import Reclaim
from trainyard.scheduling.queues.scheduling import Scheduling, SharePlugin
from trainyard.scheduling.queues.tree import QueueTree

_ROUNDS = 8
"""Rounds of reclaim after which jobs evict each other in turn."""
_IN_TURN = "jobs reclaim from each other in turn"
_UNCOUNTED = "amounts are from minResources, not from pods"
_WEIGHTS = "plug-in proportion divides by weights, which are not compared"
_PREEMPT = "action preempt, within a queue by priority, is not compared"


class ForecastState(StrEnum):
    """State of one job, compared with the present one."""

    RUNS = "runs"
    STARTS = "starts"
    WAITS = "waits"
    SHRINKS = "shrinks"
    EVICTED = "taken"


@dataclass(frozen=True)
class JobForecast:
    """Forecast for one job, with the reason.

    Parameters
    ----------
    state
        The state.
    reason
        What it waits for, or the job that reclaims its resources; otherwise empty.
    reclaimable
        Whether its queue is above its share, so that others may reclaim its pods.
    lost
        Number of pods that it loses; all, if it restarts.
    estimate
        Why the forecast is an estimate; empty: it is not.
    """

    state: ForecastState
    reason: str = ""
    reclaimable: bool = False
    lost: int = 0
    estimate: str = ""


@dataclass(frozen=True)
class Forecast:
    """Forecast for all jobs.

    Parameters
    ----------
    jobs
        Forecast by name of the job.
    limits
        Limit of each queue, in units.
    """

    jobs: Mapping[str, JobForecast]
    limits: Mapping[str, Amounts]


def forecast(
    tree: QueueTree,
    jobs: Sequence[QueuedJob],
    capacity: Mapping[str, int] | None,
    *,
    node: Mapping[str, int] | None = None,
    scheduling: Scheduling | None = None,
) -> Forecast:
    """Return the forecast for jobs under a queue tree, after all that the scheduler does until it is idle.

    Parameters
    ----------
    tree
        The queues, without a cycle; ``default`` exists in every tree.
    jobs
        Running and waiting jobs.
    capacity
        Capacity of all nodes, in units; None if unknown: then only the queues' limits count.
    node
        Capacity of each node, in units; None if unknown, or if nodes differ.
    scheduling
        The scheduler; unset: Volcano with plug-in capacity, its tree and action reclaim.
    """
    if DEFAULT not in tree.queues:
        tree = tree.with_queue(DEFAULT, Queue())
    scheduling = scheduling or Scheduling()
    state = Allocation(tree, jobs, capacity, node, scheduling)
    reclaim = Reclaim(state)
    lenders = frozenset(name for name in tree.queues if reclaim.above_share(name))
    if SharePlugin.PROPORTION in scheduling.plugins:
        state.doubt = _WEIGHTS
    state.schedule()
    for _ in range(_ROUNDS if scheduling.reclaim else 0):
        if not reclaim.run():
            break
        state.schedule()
        reclaim.replace()
        state.schedule()
    else:
        if scheduling.reclaim:
            state.doubt = state.doubt or _IN_TURN
            for gang in (each for gangs in state.gangs.values() for each in gangs.values()):
                if gang.lost or gang.waiting:
                    state.decide(gang)
    gangs = [state.gangs[job.queue][job.name] for job in jobs]
    doubts = _doubts(state, reclaim, gangs)
    return Forecast(
        {gang.job.name: _of(gang, state, lenders, doubts.get(gang.job.name, "")) for gang in gangs}, state.limits
    )


def _of(gang: GangAllocation, allocation: Allocation, lenders: frozenset[str], doubt: str) -> JobForecast:
    job = gang.job
    reclaimable = job.queue in lenders and any(pod.placed and pod.evictable for pod in job.members)
    by = f"by {', '.join(list(gang.reclaimers)[:3])}" if gang.reclaimers else ""
    if not job.running:
        state = ForecastState.STARTS if gang.ready else ForecastState.WAITS
        return JobForecast(state, "" if gang.ready else allocation.reasons.get(job.name, by), False, 0, doubt)
    if not gang.lost:
        return JobForecast(ForecastState.RUNS, "", reclaimable, 0, doubt)
    again = f", and {'may start' if allocation.doubt else 'starts'} again" if gang.restarted and gang.ready else ""
    state = ForecastState.EVICTED if gang.restarted else ForecastState.SHRINKS
    return JobForecast(state, by + again, True, gang.lost, doubt)


def _doubts(state: Allocation, reclaim: Reclaim, gangs: Sequence[GangAllocation]) -> dict[str, str]:
    """Return why the forecasts of jobs are estimates, by job."""
    doubts = dict(state.doubts)
    crowded = {gang.job.queue for gang in gangs if not gang.job.running}
    lowest: dict[str, int] = {}
    for gang in gangs:
        if gang.job.running:
            lowest[gang.job.queue] = min(gang.job.priority, lowest.get(gang.job.queue, gang.job.priority))
    urgent = {
        gang.job.queue: gang.job.priority
        for gang in sorted(gangs, key=lambda gang: gang.job.priority)
        if not gang.ready and gang.job.priority > lowest.get(gang.job.queue, gang.job.priority)
    }
    for gang in gangs:
        job = gang.job
        if job.queue in reclaim.uncertain and job.running and any(pod.evictable for pod in job.members):
            doubts.setdefault(job.name, reclaim.uncertain[job.queue])
        elif state.doubt and job.running and job.queue in crowded and reclaim.uncertain:
            doubts.setdefault(job.name, state.doubt)
        if state.scheduling.preempt and job.queue in urgent and (not gang.ready or job.priority < urgent[job.queue]):
            doubts.setdefault(job.name, _PREEMPT)
        if not job.counted and (not job.running or gang.lost):
            doubts.setdefault(job.name, _UNCOUNTED)
    return doubts
