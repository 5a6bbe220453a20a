"""Forecast for jobs under a queue tree: running, starting, waiting (with the reason), reclaimable.

Applies the scheduler's rules to totals, not to nodes: whether a gang fits on individual nodes is not checked. Upstream
source: plug-in ``capacity`` with the tree of Volcano 1.14.1. Queues are served by priority, then by the used part of
their deserved amount, level by level; a job must fit in the limit of every queue above it. A queue reclaims while one
resource that its job requests stays within deserved. A job can be reclaimed from a reclaimable queue that is above
deserved in a resource that the job requests, and only while the queue keeps its guarantee: lowest priority first, then
youngest.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from trainyard.queues.amounts import Amounts, text, total
from trainyard.queues.effective_limits import limits
from trainyard.queues.queue import DEFAULT, ROOT, Queue
from trainyard.queues.queued_gangs import Job
from trainyard.queues.tree import QueueTree
from trainyard.settings.tenancy import QueueState

__all__ = ["Forecast", "JobForecast", "Outcome", "forecast"]

_Order = tuple[int, tuple[tuple[float, bool], ...]]


class Outcome(StrEnum):
    """Outcome of one job."""

    RUNS = "runs"
    STARTS = "starts"
    WAITS = "waits"
    TAKEN = "taken"


@dataclass(frozen=True)
class JobForecast:
    """Forecast for one job, with the reason.

    Parameters
    ----------
    outcome
        The outcome.
    reason
        What it waits for, or the job that reclaims its resources; otherwise empty.
    reclaimable
        Whether it runs on borrowed resources, which their owners may reclaim.
    """

    outcome: Outcome
    reason: str = ""
    reclaimable: bool = False


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


def forecast(tree: QueueTree, jobs: Sequence[Job], capacity: Mapping[str, int] | None) -> Forecast:
    """Return the forecast for jobs under a queue tree, after all that the scheduler can do at once.

    Parameters
    ----------
    tree
        The queues, without a cycle; ``default`` exists in every tree.
    jobs
        Running and waiting jobs, in order of creation.
    capacity
        Capacity of all nodes, in units; None if unknown: then only the queues' limits count.
    """
    if DEFAULT not in tree.queues:
        tree = tree.with_queue(DEFAULT, Queue())
    simulation = _Simulation(tree, limits(tree, capacity), capacity)
    for job in jobs:
        if job.running:
            simulation.start(job)
    reclaimable_jobs = simulation.reclaimable_jobs()
    simulation.serve([job for job in jobs if not job.running])
    return Forecast({job.name: simulation.job_forecast(job, reclaimable_jobs) for job in jobs}, simulation.limits)


@dataclass
class _Simulation:
    """State of the queues during scheduling."""

    tree: QueueTree
    limits: Mapping[str, Amounts]
    capacity: Mapping[str, int] | None
    used: defaultdict[str, Amounts] = field(default_factory=lambda: defaultdict(dict))
    present: defaultdict[str, dict[str, Job]] = field(default_factory=lambda: defaultdict(dict))
    reasons: dict[str, str] = field(default_factory=dict)
    reclaimers: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._chains = {name: (*reversed([*self.tree.ancestors(name)]), name) for name in self.tree.queues}
        self._leaves = frozenset(self.tree.leaves)
        self._served: set[str] = set()
        self._shares: dict[str, Amounts] = {}
        self._parts: dict[str, tuple[float, bool]] = {}
        self._candidates: dict[str, list[Job]] = {}
        self._pool: defaultdict[str, int] = defaultdict(int)
        self._touched: set[str] = set()

    def start(self, job: Job) -> None:
        """Start a job: its request counts as used."""
        self._served.add(job.name)
        self.present[job.queue][job.name] = job
        self._count(job, 1)

    def serve(self, waiting: Iterable[Job]) -> None:
        """Start all jobs that can start, first on free resources, then on reclaimed ones."""
        full = self._schedule(waiting)
        for job in sorted(full, key=lambda job: (self._order(job.queue), _first(job))):
            if self._reclaim(job):
                self.start(job)
                self.reasons.pop(job.name)
        self._schedule([job for job in full if job.name not in self._served])

    def job_forecast(self, job: Job, reclaimable_jobs: frozenset[str]) -> JobForecast:
        """Return the forecast for a job."""
        if job.name in self.reclaimers:
            return JobForecast(Outcome.TAKEN, f"by {self.reclaimers[job.name]}", reclaimable=True)
        if job.name in self._served:
            return JobForecast(
                Outcome.RUNS if job.running else Outcome.STARTS, reclaimable=job.name in reclaimable_jobs
            )
        return JobForecast(Outcome.WAITS, self.reasons[job.name])

    def reclaimable_jobs(self) -> frozenset[str]:
        """Return the jobs that run on borrowed resources."""
        return frozenset(job.name for name in self.present for job in self._reclaimable_jobs(name))

    def _schedule(self, waiting: Iterable[Job]) -> list[Job]:
        """Serve the queues in their order; return the jobs that only lack free capacity."""
        lines: defaultdict[str, list[Job]] = defaultdict(list)
        for job in waiting:
            if reason := self._closed(job):
                self.reasons[job.name] = reason
            else:
                lines[job.queue].append(job)
        for line in lines.values():
            line.sort(key=_first, reverse=True)
        full: list[Job] = []
        order_heap = [(self._order(name), name) for name in lines]
        heapq.heapify(order_heap)
        while order_heap:
            order, name = heapq.heappop(order_heap)
            now = self._order(name)
            if now != order:
                heapq.heappush(order_heap, (now, name))
                continue
            job = lines[name].pop()
            if reason := self._beyond_limit(job):
                self.reasons[job.name] = reason
            elif missing := self._missing(job):
                self.reasons[job.name] = f"the cluster is full: {_some(missing)} short"
                full.append(job)
            else:
                self.start(job)
                self.reasons.pop(job.name, None)
            if lines[name]:
                heapq.heappush(order_heap, (self._order(name), name))
        return full

    def _closed(self, job: Job) -> str:
        queue = self.tree.queues.get(job.queue)
        if queue is None:
            return f"queue {job.queue} does not exist"
        if job.queue not in self._leaves:
            return f"queue {job.queue} has child queues: this stops scheduling for every tenant"
        return ""

    def _beyond_limit(self, job: Job) -> str:
        for name in self._chains[job.queue]:
            limit, used = self.limits.get(name, {}), self.used[name]
            for resource, amount in job.request.items():
                bound = limit.get(resource)
                if bound is not None and amount and used.get(resource, 0) + amount > bound:
                    free = text(resource, max(0, bound - used.get(resource, 0)))
                    return f"the limit of {name} is {text(resource, bound)} {resource}, of which {free} are free"
        return ""

    def _missing(self, job: Job) -> Amounts:
        if self.capacity is None:
            return {}
        used = self.used[ROOT]
        short = {
            resource: used.get(resource, 0) + amount - self.capacity.get(resource, 0)
            for resource, amount in job.request.items()
            if amount
        }
        return {resource: amount for resource, amount in short.items() if amount > 0}

    def _reclaim(self, job: Job) -> bool:
        """Reclaim what a job lacks, if its queue may; nothing is evicted if that would not be enough."""
        missing = self._missing(job)
        if self._beyond_limit(job) or not self._may_reclaim(job) or not self._enough(job, missing):
            return False
        victims: list[Job] = []
        for victim in self._victims(job):
            victims.append(victim)
            missing = {each: amount - victim.request.get(each, 0) for each, amount in missing.items()}
            if all(amount <= 0 for amount in missing.values()):
                break
        else:
            return False
        for victim in victims:
            self._count(victim, -1)
            del self.present[victim.queue][victim.name]
            self._served.discard(victim.name)
            self.reclaimers[victim.name] = f"{job.name} of {job.queue}"
        return True

    def _enough(self, job: Job, missing: Amounts) -> bool:
        """Return whether everything that others borrowed would be enough."""
        for name in self._touched & self._leaves:
            old, new = self._candidates.get(name, []), self._reclaimable_jobs(name)
            for sign, jobs in ((-1, old), (1, new)):
                for each in jobs:
                    for resource, amount in each.request.items():
                        self._pool[resource] += sign * amount
            self._candidates[name] = new
        self._touched.clear()
        own = total(each.request for each in self._candidates.get(job.queue, []))
        return all(self._pool[resource] - own.get(resource, 0) >= amount for resource, amount in missing.items())

    def _may_reclaim(self, job: Job) -> bool:
        deserved, used = self._deserved(job.queue), self.used[job.queue]
        is_open = self.tree.queues[job.queue].state is QueueState.OPEN
        return is_open and any(
            amount and used.get(resource, 0) + amount <= deserved.get(resource, 0)
            for resource, amount in job.request.items()
        )

    def _is_reclaimable(self, job: Job, used: Mapping[str, int]) -> bool:
        deserved, guarantee = self._deserved(job.queue), self.tree.queues[job.queue].amounts("guarantee")
        if any(used.get(each, 0) - job.request.get(each, 0) < amount for each, amount in guarantee.items()):
            return False
        named = [each for each, amount in job.request.items() if amount and deserved.get(each)]
        return not named or any(used.get(each, 0) > deserved[each] for each in named)

    def _victims(self, reclaimer: Job) -> Iterator[Job]:
        lenders = [name for name, jobs in self._candidates.items() if jobs and name != reclaimer.queue]
        for name in sorted(lenders, key=self._order, reverse=True):
            for job in self._candidates[name]:
                if reclaimer.request.keys() & job.request.keys():
                    yield job

    def _reclaimable_jobs(self, name: str) -> list[Job]:
        """Return the jobs that others may reclaim from a queue, in order of eviction."""
        if not self._allows_reclaim(name):
            return []
        found, left = [], self.used[name]
        for job in sorted(self.present[name].values(), key=_last):
            if job.running and self._is_reclaimable(job, left):
                found.append(job)
                left = {resource: amount - job.request.get(resource, 0) for resource, amount in left.items()}
        return found

    def _allows_reclaim(self, name: str) -> bool:
        queue = self.tree.queues.get(name)
        return queue is not None and queue.reclaimable

    def _deserved(self, name: str) -> Amounts:
        if name not in self._shares:
            queue, limit = self.tree.queues[name], self.limits.get(name, {})
            deserved = {
                each: min(amount, limit.get(each, amount)) for each, amount in queue.amounts("deserved").items()
            }
            for resource, amount in queue.amounts("guarantee").items():
                deserved[resource] = max(amount, deserved.get(resource, 0))
            self._shares[name] = {resource: amount for resource, amount in deserved.items() if amount}
        return self._shares[name]

    def _order(self, name: str) -> _Order:
        return -self.tree.queues[name].priority, tuple(self._share(each) for each in self._chains[name])

    def _share(self, name: str) -> tuple[float, bool]:
        """Return the used part of a queue's share, and whether it has no share, which counts as fully used."""
        if name not in self._parts:
            deserved, used = self._deserved(name), self.used[name]
            parts = (used.get(each, 0) / amount for each, amount in deserved.items())
            self._parts[name] = (max(parts), False) if deserved else (1.0, True)
        return self._parts[name]

    def _count(self, job: Job, sign: int) -> None:
        for name in (ROOT, *self._chains.get(job.queue, ())):
            used = self.used[name]
            for resource, amount in job.request.items():
                used[resource] = used.get(resource, 0) + sign * amount
            self._parts.pop(name, None)
        self._touched.add(job.queue)


def _first(job: Job) -> tuple[int, str, str]:
    return -job.priority, job.created, job.name


def _last(job: Job) -> tuple[int, tuple[int, ...], str]:
    """Order of eviction of running jobs: lowest priority, then youngest."""
    return job.priority, tuple(-ord(letter) for letter in job.created), job.name


def _some(amounts: Amounts) -> str:
    return ", ".join(f"{text(resource, amount)} {resource}" for resource, amount in sorted(amounts.items()))
