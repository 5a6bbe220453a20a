"""Plan of a queue tree change: changed shares, and the effect on jobs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from trainyard.scheduling.queues.amounts import text
from trainyard.scheduling.queues.forecast import Forecast, ForecastState, JobForecast, forecast
from trainyard.scheduling.queues.queue import DEFAULT, KINDS, ROOT, Queue
from trainyard.scheduling.queues.queued_gangs import QueuedJob
from trainyard.scheduling.queues.scheduling import Scheduling
from trainyard.scheduling.queues.tree import QueueTree

LIMIT = "limit"
"""Effective maximum of a queue: its capability, own or inherited, less the guarantees of others."""


class PlannedEffect(StrEnum):
    """Effect of a change on one job, the worst first."""

    EVICTED = "taken"
    SHRINKS = "shrinks"
    WAITS = "waits"
    RECLAIMABLE = "reclaimable"
    STARTS = "starts"
    SAFE = "safe"


_EFFECTS = {
    ForecastState.EVICTED: PlannedEffect.EVICTED,
    ForecastState.SHRINKS: PlannedEffect.SHRINKS,
    ForecastState.WAITS: PlannedEffect.WAITS,
    ForecastState.STARTS: PlannedEffect.STARTS,
}
_EXPLAINED = {
    PlannedEffect.STARTS: "starts because of the change",
    PlannedEffect.WAITS: "waits, but would start without the change",
    PlannedEffect.EVICTED: "runs and is evicted",
    PlannedEffect.SHRINKS: "loses pods and continues with the others",
    PlannedEffect.RECLAIMABLE: "continues on borrowed resources, which others may reclaim",
    PlannedEffect.SAFE: "ran on borrowed resources, which are now within its queue's share",
}


@dataclass(frozen=True)
class ShareChange:
    """Change of one amount of one queue.

    Parameters
    ----------
    kind
        ``deserved``, ``guarantee``, ``capability``, or ``limit``: its effective maximum.
    resource
        Name of the resource.
    before, after
        Units; None if unset.
    """

    kind: str
    resource: str
    before: int | None
    after: int | None

    @property
    def gains(self) -> bool:
        """Whether the amount increases; no limit is more than any limit."""
        if self.kind in ("capability", LIMIT):
            return self.after is None or (self.before is not None and self.after > self.before)
        return (self.after or 0) > (self.before or 0)

    def __str__(self) -> str:
        return f"{self.kind} {self.resource} {_amount(self, self.before)} → {_amount(self, self.after)}"


@dataclass(frozen=True)
class QueueChange:
    """Change of one queue.

    Parameters
    ----------
    queue
        Its name.
    tenants
        Tenants that use it.
    change
        ``added``, ``removed`` or ``changed``.
    shares
        Changed amounts.
    words
        Other changed fields, such as ``parent root → research``.
    """

    queue: str
    tenants: tuple[str, ...]
    change: str
    shares: tuple[ShareChange, ...]
    words: tuple[str, ...]


@dataclass(frozen=True)
class JobChange:
    """Change for one job.

    Parameters
    ----------
    job
        The job.
    effect
        Effect of the change on it.
    reason
        What it waits for, or the job that reclaims its resources.
    lost
        Number of pods that it loses; all of them, if it restarts.
    estimate
        Why the effect is an estimate; empty: it is not.
    """

    job: QueuedJob
    effect: PlannedEffect
    reason: str = ""
    lost: int = 0
    estimate: str = ""

    def __str__(self) -> str:
        return _EXPLAINED[self.effect] + "".join(
            f"{mark} {text}"
            for mark, text in (
                (":", self.reason),
                (";", f"{self.lost} of its pods" if self.effect is PlannedEffect.SHRINKS else ""),
                (";", f"estimate: {self.estimate}" if self.estimate else ""),
            )
            if text
        )


@dataclass(frozen=True)
class Plan:
    """Effects of a change.

    Parameters
    ----------
    queues
        Changed queues, by name.
    jobs
        Affected jobs, the worst effect first.
    running, waiting
        Number of jobs that were checked.
    estimates
        Number of jobs by the reason why their forecast is an estimate, also those without an effect.
    """

    queues: tuple[QueueChange, ...]
    jobs: tuple[JobChange, ...]
    running: int
    waiting: int
    estimates: Mapping[str, int] = field(default_factory=dict)


def plan(
    before: QueueTree,
    after: QueueTree,
    *,
    jobs: Sequence[QueuedJob] = (),
    capacity: Mapping[str, int] | None = None,
    capacity_after: Mapping[str, int] | None = None,
    tenants: Mapping[str, Sequence[str]] | None = None,
    node: Mapping[str, int] | None = None,
    node_after: Mapping[str, int] | None = None,
    scheduling: Scheduling | None = None,
) -> Plan:
    """Return the effects of a change of the queue tree.

    Parameters
    ----------
    before, after
        The trees, both without a cycle.
    jobs
        Running and waiting jobs.
    capacity
        Capacity of all nodes, in units; None if unknown.
    capacity_after
        The same after the change, if the fabric changes too.
    tenants
        Queues by tenant, before and after together.
    node
        Capacity of each node, in units; None if unknown, or if nodes differ.
    node_after
        The same after the change, if the fabric changes too.
    scheduling
        The scheduler; unset: Volcano with plug-in capacity, its tree and action reclaim.
    """
    before, after = (tree if DEFAULT in tree.queues else tree.with_queue(DEFAULT, Queue()) for tree in (before, after))
    now = forecast(before, jobs, capacity, node=node, scheduling=scheduling)
    nodes_after = (capacity, node) if capacity_after is None else (capacity_after, node_after)
    then = forecast(after, jobs, nodes_after[0], node=nodes_after[1], scheduling=scheduling)
    users = {
        name: tuple(sorted(tenant for tenant, queues in (tenants or {}).items() if name in queues))
        for name in {*before.queues, *after.queues}
    }
    return Plan(
        tuple(_queues(before, after, now, then, users)),
        tuple(sorted(_jobs(jobs, now, then), key=_weight)),
        sum(job.running for job in jobs),
        sum(not job.running for job in jobs),
        Counter(reason for job in jobs if (reason := then.jobs[job.name].estimate or now.jobs[job.name].estimate)),
    )


def _queues(
    before: QueueTree, after: QueueTree, now: Forecast, then: Forecast, users: Mapping[str, tuple[str, ...]]
) -> Iterator[QueueChange]:
    inherited = before.root.amounts("capability"), after.root.amounts("capability")
    if shares := tuple(_differences("capability", *inherited)):
        yield QueueChange(ROOT, (), "changed", shares, ())
    for name in sorted({*before.queues, *after.queues}):
        old, new = before.queues.get(name), after.queues.get(name)
        shares = tuple(_shares(name, old, new, now, then))
        words = tuple(_words(old, new)) if old and new else ()
        if shares or words or old is None or new is None:
            change = "added" if old is None else "removed" if new is None else "changed"
            yield QueueChange(name, users[name], change, shares, words)


def _shares(name: str, old: Queue | None, new: Queue | None, now: Forecast, then: Forecast) -> Iterator[ShareChange]:
    for kind in KINDS:
        yield from _differences(kind, old.amounts(kind) if old else {}, new.amounts(kind) if new else {})
    if name != DEFAULT and old is not None and new is not None:
        yield from _differences(LIMIT, now.limits.get(name, {}), then.limits.get(name, {}))


def _differences(kind: str, before: Mapping[str, int], after: Mapping[str, int]) -> Iterator[ShareChange]:
    for resource in sorted({*before, *after}):
        if before.get(resource) != after.get(resource):
            yield ShareChange(kind, resource, before.get(resource), after.get(resource))


def _words(old: Queue, new: Queue) -> Iterator[str]:
    for name in ("parent", "priority", "weight", "reclaimable", "state"):
        one, other = getattr(old, name), getattr(new, name)
        if one != other:
            yield f"{name} {str(one).lower()} → {str(other).lower()}"


def _jobs(jobs: Sequence[QueuedJob], now: Forecast, then: Forecast) -> Iterator[JobChange]:
    for job in jobs:
        old, new = now.jobs[job.name], then.jobs[job.name]
        effect = _effect(old, new)
        if effect is not None:
            reason = new.reason if effect in (PlannedEffect.WAITS, PlannedEffect.EVICTED, PlannedEffect.SHRINKS) else ""
            yield JobChange(job, effect, reason, new.lost, new.estimate or old.estimate)


def _effect(old: JobForecast, new: JobForecast) -> PlannedEffect | None:
    if old.state is not new.state or (new.state is ForecastState.SHRINKS and old.lost != new.lost):
        return _EFFECTS.get(new.state, PlannedEffect.SAFE)
    if new.state is ForecastState.RUNS and old.reclaimable != new.reclaimable:
        return PlannedEffect.RECLAIMABLE if new.reclaimable else PlannedEffect.SAFE
    return None


def _weight(change: JobChange) -> tuple[int, str]:
    return list(PlannedEffect).index(change.effect), change.job.name


def _amount(change: ShareChange, amount: int | None) -> str:
    if amount is None:
        return "no limit" if change.kind in ("capability", LIMIT) else "none"
    return text(change.resource, amount)
