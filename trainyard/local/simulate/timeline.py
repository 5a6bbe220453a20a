"""Timeline of a replay: running and waiting jobs, their nodes, and the usage of each queue."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction

from trainyard import quantity
from trainyard.insight.usage.levels import Share
from trainyard.local.simulate.scenario_jobs import ScenarioGang
from trainyard.scheduling.topology.fabric_compiler import Fabric


class JobPhase(StrEnum):
    """State of a job, derived from its placed pods."""

    ABSENT = "absent"
    WAITING = "waiting"
    PARTIAL = "partial"
    RUNNING = "running"
    FINISHED = "finished"
    DELETED = "deleted"


class Ending(StrEnum):
    """Why a pod stopped running."""

    FINISHED = "finished"
    DELETED = "deleted"
    LOST = "lost"
    OPEN = "open"


@dataclass
class PodRun:
    """A pod on a node.

    Parameters
    ----------
    job, pod, node
        Job, pod and node.
    began, ended
        Seconds of scenario time; no end while it runs.
    ending
        Why it ended: finished, deleted, or lost by an eviction, a node failure or a restart of its gang.
    evicted
        Whether the scheduler evicted it.
    """

    job: str
    pod: str
    node: str
    began: int
    ended: int | None = None
    ending: Ending = Ending.OPEN
    evicted: bool = False


@dataclass
class Wait:
    """An interval in which a job waits."""

    job: str
    began: int
    ended: int | None = None


@dataclass
class Timeline:
    """The record of a replay.

    Parameters
    ----------
    fabric
        The nodes and their domains.
    jobs
        Every job by name.
    parents
        Parent of each queue.
    runs, waits
        Recorded intervals, ordered by their start.
    marks
        Events by instant, for the drawing.
    shares
        Share of each queue for which it changes at an instant.
    arrived, left
        Instants at which jobs arrived, and finished or were deleted.
    """

    fabric: Fabric
    jobs: Mapping[str, ScenarioGang]
    parents: Mapping[str, str] = field(default_factory=dict)
    runs: list[PodRun] = field(default_factory=list)
    waits: list[Wait] = field(default_factory=list)
    marks: list[tuple[int, str]] = field(default_factory=list)
    shares: dict[int, dict[str, Share]] = field(default_factory=dict)
    arrived: dict[str, int] = field(default_factory=dict)
    left: dict[str, int] = field(default_factory=dict)
    now: int = 0

    def __post_init__(self) -> None:
        self._open: dict[str, dict[str, PodRun]] = {}
        self._states: dict[str, JobPhase] = {}
        self._waiting: dict[str, Wait] = {}
        self._restarts: defaultdict[str, int] = defaultdict(int)
        self._started: dict[str, int] = {}
        self._paths = {node.name: dict(zip(self.fabric.levels, node.path, strict=True)) for node in self.fabric.nodes}

    def arrive(self, name: str, at: int) -> None:
        """Record the arrival of a job."""
        self.arrived[name] = at
        self._open[name] = {}
        self._states[name] = JobPhase.WAITING
        self._begin_wait(name, at)

    def leave(self, name: str, at: int, *, finished: bool) -> None:
        """Record that a job has finished or was deleted."""
        self.left[name] = at
        self._states[name] = JobPhase.FINISHED if finished else JobPhase.DELETED
        for run in self._open.get(name, {}).values():
            run.ended, run.ending = at, Ending.FINISHED if finished else Ending.DELETED
        self._open[name] = {}
        if wait := self._waiting.pop(name, None):
            wait.ended = at

    def observe(
        self,
        at: int,
        placed: Mapping[str, Mapping[str, str]],
        restarts: Mapping[str, int],
        evicted: Container[str] = (),
    ) -> None:
        """Record the placements at an instant.

        Parameters
        ----------
        at
            The instant.
        placed
            Node by pod, by job; contains every active job.
        restarts
            Number of restarts of each job since the last instant.
        evicted
            Pods that the scheduler evicted.
        """
        for name, pods in placed.items():
            running = self._open[name]
            for pod in [pod for pod, run in running.items() if pods.get(pod) != run.node]:
                run = running.pop(pod)
                run.ended, run.ending, run.evicted = at, Ending.LOST, pod in evicted
            for pod, node in pods.items():
                if pod not in running:
                    running[pod] = PodRun(name, pod, node, at)
                    self.runs.append(running[pod])
            self._restarts[name] += restarts.get(name, 0)
            self._update(name, at)

    def _update(self, name: str, at: int) -> None:
        count, needed = len(self._open[name]), self.jobs[name].min_member
        state = JobPhase.RUNNING if count >= needed else JobPhase.PARTIAL if count else JobPhase.WAITING
        self._states[name] = state
        if state is JobPhase.RUNNING:
            self._started.setdefault(name, at)
            if wait := self._waiting.pop(name, None):
                wait.ended = at
        else:
            self._begin_wait(name, at)

    def _begin_wait(self, name: str, at: int) -> None:
        if name not in self._waiting:
            self._waiting[name] = Wait(name, at)
            self.waits.append(self._waiting[name])

    def close(self, at: int) -> None:
        """Record the end of the replay."""
        self.now = max(self.now, at)

    def state(self, name: str) -> JobPhase:
        """Return the state of a job."""
        return self._states.get(name, JobPhase.ABSENT)

    def places(self, name: str) -> dict[str, str]:
        """Return the node of each placed pod of a job."""
        return {pod: run.node for pod, run in self._open.get(name, {}).items()}

    def domains(self, name: str, tier: str) -> list[str]:
        """Return the domains of a tier with pods of a job, sorted; a node outside the fabric is a domain of its own."""
        return sorted({self._paths.get(node, {}).get(tier, node) for node in self.places(name).values()})

    def restarts(self, name: str) -> int:
        """Return the number of restarts of a job."""
        return self._restarts[name]

    def lost(self, name: str) -> int:
        """Return the number of placed pods that a job lost by eviction, node failure or restart."""
        return sum(run.job == name and run.ending is Ending.LOST for run in self.runs)

    def started(self, name: str) -> int | None:
        """Return the instant at which a job first ran; None if never."""
        return self._started.get(name)

    @property
    def free_nodes(self) -> list[str]:
        """Nodes of the fabric without a pod."""
        used = {run.node for running in self._open.values() for run in running.values()}
        return [node.name for node in self.fabric.nodes if node.name not in used]

    def used(self, queue: str) -> dict[str, Fraction]:
        """Return the requests of the placed pods in a queue and its descendants, by resource."""
        total: defaultdict[str, Fraction] = defaultdict(Fraction)
        for name, running in self._open.items():
            if queue in self._above(self.jobs[name].queue):
                for resource, amount in self.jobs[name].per_pod.items():
                    total[resource] += quantity.parse(amount) * len(running)
        return dict(total)

    def _above(self, queue: str) -> list[str]:
        found = [queue]
        while (parent := self.parents.get(found[-1])) and parent not in found:
            found.append(parent)
        return found

    def usage(self, resource: str) -> dict[str, list[tuple[int, Fraction]]]:
        """Return the usage of each queue as steps of (instant, amount)."""
        changes: defaultdict[str, defaultdict[int, Fraction]] = defaultdict(lambda: defaultdict(Fraction))
        for run in self.runs:
            job = self.jobs[run.job]
            amount = quantity.parse(job.per_pod.get(resource, 0))
            changes[job.queue][run.began] += amount
            if run.ended is not None:
                changes[job.queue][run.ended] -= amount
        found: dict[str, list[tuple[int, Fraction]]] = {}
        for queue in dict.fromkeys(job.queue for job in self.jobs.values()):
            level, steps = Fraction(0), [(0, Fraction(0))]
            for at in sorted(changes[queue]):
                level += changes[queue][at]
                steps.append((at, level))
            found[queue] = steps
        return found
