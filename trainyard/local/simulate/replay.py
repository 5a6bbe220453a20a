"""Replay a scenario: the clock jumps from one event to the next.

At each instant all due events are applied, and the replay waits until the real scheduler is idle and records its
decisions. So hours of scenario time take only as long as the scheduler's decisions.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Protocol

from trainyard.insight.usage.bodies import shares
from trainyard.local.simulate.clock import shown
from trainyard.local.simulate.expectation import ExpectationResult, evaluate
from trainyard.local.simulate.name_list import Names
from trainyard.local.simulate.scenario import Event, Scenario
from trainyard.local.simulate.scenario_jobs import ScenarioGang
from trainyard.local.simulate.timeline import JobPhase, Timeline
from trainyard.settings.tenancy import QueueSettings
from trainyard.stack_checks import stack_queues


@dataclass(frozen=True)
class Settled:
    """State at an instant, once the scheduler is idle.

    Parameters
    ----------
    placed
        Node by pod, by job; contains every active job.
    restarts
        Number of restarts of each job because of lost pods.
    evicted
        Pods that the scheduler evicted since the last instant.
    """

    placed: Mapping[str, Mapping[str, str]]
    restarts: Mapping[str, int] = field(default_factory=dict)
    evicted: frozenset[str] = frozenset()


class ReplayWorld(Protocol):
    """Environment in which a scenario is replayed."""

    async def submit(self, job: ScenarioGang) -> None:
        """Create the PodGroup and the pods of a job."""

    async def withdraw(self, name: str) -> None:
        """Delete the pods and the PodGroup of a job."""

    async def restart(self, name: str) -> None:
        """Recreate all pods of a job."""

    async def fail(self, nodes: list[str]) -> None:
        """Delete nodes with their pods."""

    async def repair(self, nodes: list[str]) -> None:
        """Recreate nodes."""

    async def cordon(self, nodes: list[str], *, on: bool) -> None:
        """Cordon or uncordon nodes."""

    async def kill(self, programs: Names) -> None:
        """Kill programs of Volcano, and wait until they have restarted."""

    async def change_queue(self, body: Mapping[str, Any]) -> None:
        """Replace the amounts of a Queue."""

    async def settle(self) -> Settled:
        """Wait until the scheduler is idle."""


@dataclass(frozen=True)
class Replay:
    """A replayed scenario with its timeline and the results of its expectations."""

    scenario: Scenario
    timeline: Timeline
    results: tuple[ExpectationResult, ...]

    @property
    def holds(self) -> bool:
        """Whether every expectation holds."""
        return all(result.holds for result in self.results)


async def replay(
    scenario: Scenario, world: ReplayWorld, progress: Callable[[str, float], None] | None = None
) -> Replay:
    """Replay a scenario.

    Parameters
    ----------
    scenario
        The scenario.
    world
        The environment, prepared with the scenario's platform.
    progress
        Receives the instant, and the finished share of the known instants.
    """
    return await _Run(scenario, world, progress or (lambda _text, _fraction: None)).run()


class _Run:
    def __init__(self, scenario: Scenario, world: ReplayWorld, progress: Callable[[str, float], None]) -> None:
        self._scenario, self._world, self._progress = scenario, world, progress
        parents = {name: queue.parent for name, queue in scenario.settings.queues.items()}
        self._timeline = Timeline(scenario.fabric, scenario.jobs, parents)
        self._queues = dict(scenario.settings.queues)
        self._active: dict[str, ScenarioGang] = {}
        self._ends: dict[str, int] = {}
        self._agenda: list[tuple[int, int]] = []
        self._order = count()
        self._results: list[ExpectationResult] = []

    async def run(self) -> Replay:
        file = self._scenario.file
        self._timeline.shares[0] = shares(stack_queues(self._scenario.settings).all)
        instants = {job.arrival for job in self._scenario.jobs.values()} | {event.at for event in file.events}
        instants |= {each.at for each in file.expect if each.at is not None}
        for at in sorted(instants):
            heapq.heappush(self._agenda, (at, next(self._order)))
        done = at = 0
        while self._agenda:
            at = heapq.heappop(self._agenda)[0]
            while self._agenda and self._agenda[0][0] == at:
                heapq.heappop(self._agenda)
            self._progress(shown(at), done / (done + len(self._agenda) + 1))
            await self._instant(at)
            done += 1
        self._evaluate(None)
        self._timeline.close(at)
        return Replay(self._scenario, self._timeline, tuple(self._results))

    async def _instant(self, at: int) -> None:
        self._timeline.now = at
        due = [name for name, end in self._ends.items() if end <= at]
        await asyncio.gather(*(self._leave(name, at, finished=True) for name in due))
        for event in self._scenario.file.events:
            if event.at == at:
                self._timeline.marks.append((at, event.label))
                await self._apply(event, at)
        arriving = [job for job in self._scenario.jobs.values() if job.arrival == at]
        for job in arriving:
            self._active[job.name] = job
            self._timeline.arrive(job.name, at)
        await asyncio.gather(*(self._world.submit(job) for job in arriving))
        settled = await self._world.settle()
        self._timeline.observe(at, settled.placed, settled.restarts, settled.evicted)
        self._plan_ends(at, settled)
        self._evaluate(at)

    async def _leave(self, name: str, at: int, *, finished: bool) -> None:
        self._ends.pop(name, None)
        del self._active[name]
        await self._world.withdraw(name)
        self._timeline.leave(name, at, finished=finished)

    async def _apply(self, event: Event, at: int) -> None:
        world, nodes = self._world, self._scenario.nodes
        if event.fail:
            await world.fail(nodes(event.fail))
        if event.repair:
            await world.repair(nodes(event.repair))
        if event.cordon or event.uncordon:
            await world.cordon(nodes(event.cordon or event.uncordon), on=bool(event.cordon))
        for pattern in (*event.delete, *event.restart):
            for name in [name for name in self._scenario.matching(pattern) if name in self._active]:
                if event.delete:
                    await self._leave(name, at, finished=False)
                else:
                    await world.restart(name)
        if event.kill:
            await world.kill(event.kill)
        if event.queue:
            await self._change_queue(event.queue, event.change, at)

    async def _change_queue(self, name: str, change: Mapping[str, Any], at: int) -> None:
        values = self._queues[name].model_dump(by_alias=True, mode="json", exclude_unset=True)
        self._queues[name] = QueueSettings.model_validate({**values, **change})
        settings = self._scenario.settings.model_copy(update={"queues": self._queues})
        bodies = {body["metadata"]["name"]: body for body in stack_queues(settings).all}
        # Without any amount, a built-in queue has no patch.
        body = bodies.get(name) or {"metadata": {"name": name}, "spec": {}}
        changed = shares({**bodies, name: body}.values())[name]
        self._timeline.shares.setdefault(at, {})[name] = changed
        await self._world.change_queue(body)

    def _plan_ends(self, at: int, settled: Settled) -> None:
        for name, job in self._active.items():
            running = self._timeline.state(name) is JobPhase.RUNNING
            if not running or settled.restarts.get(name):
                self._ends.pop(name, None)
            if running and job.duration is not None and name not in self._ends:
                self._ends[name] = at + max(1, job.duration)
                heapq.heappush(self._agenda, (self._ends[name], next(self._order)))

    def _evaluate(self, at: int | None) -> None:
        for index, expectation in enumerate(self._scenario.file.expect):
            if expectation.at == at:
                self._results += evaluate(index, expectation, self._scenario, self._timeline)
