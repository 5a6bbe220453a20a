"""Small random states of a cluster, replayed on the real scheduler and compared with the forecast.

Jobs arrive one by one, and a queue changes at the end. At each instant the forecast gets the placements before it and
the queues after it; the replay tells what the scheduler made of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import yaml

from trainyard.errors import TrainyardError
from trainyard.local.simulate.replay import Replay
from trainyard.local.simulate.scenario import Scenario, load_scenario
from trainyard.local.simulate.timeline import Ending, Timeline
from trainyard.scheduling.queues.amounts import units
from trainyard.scheduling.queues.capacity import capacity_of
from trainyard.scheduling.queues.effective_limits import flattened, limits
from trainyard.scheduling.queues.forecast import ForecastState, JobForecast, forecast
from trainyard.scheduling.queues.queued_gangs import GangPod, QueuedJob
from trainyard.scheduling.queues.units import queue_tree
from trainyard.scheduling.scheduler.stack_configuration import configuration
from trainyard.settings.stack import StackSettings
from trainyard.settings.tenancy import QueueSettings
from trainyard.stack_checks import stack_queues, stack_scheduling

GPU = "nvidia.com/gpu"
FABRIC = {"domains": [{"name": "spine", "domains": [{"name": "rack-a", "nodes": 2}, {"name": "rack-b", "nodes": 2}]}]}
CLASSES = {"urgent": {"value": 1000}, "patient": {"value": 0, "preempts": False}}
CRITICAL = "system-cluster-critical"
HOUR = 3600
CPU = "cpu"
PRESETS = ("training", "hierarchical", "preemption", "topology")


@dataclass(frozen=True)
class Comparison:
    """Forecast and observation of one job at one instant."""

    at: int
    job: str
    expected: JobForecast
    observed: ForecastState
    lost: int

    @property
    def agrees(self) -> bool:
        """Whether the forecast came true."""
        shrinks = self.expected.state is ForecastState.SHRINKS
        return self.expected.state is self.observed and (not shrinks or self.expected.lost == self.lost)

    def __str__(self) -> str:
        expected = f"{self.expected.state} ({self.expected.reason}), {self.expected.lost} lost"
        kind = f"estimate: {self.expected.estimate}" if self.expected.estimate else "no estimate"
        return f"at {self.at // HOUR}h, {self.job}: {expected} [{kind}]; observed {self.observed}, {self.lost} lost"


def random_state(seed: int, folder: Path) -> Scenario:
    """Return a valid scenario, drawn from a seed; in every third, jobs and shares have a second resource."""
    random, preset = Random(seed), PRESETS[seed % len(PRESETS)]
    path = folder / f"state-{seed}.yaml"
    while True:
        document = _document(random, seed, preset)
        if seed % 3 == 0:
            _add_resource(random, document)
        path.write_text(yaml.safe_dump(document, sort_keys=False))
        try:
            scenario = load_scenario(path)
            states = (scenario.settings, _changed(scenario))
            for settings in states:
                stack_queues(settings)
                configuration(settings)
        except TrainyardError:
            continue
        if all(map(_comes_to_rest, states)):
            return scenario


def compare(replay: Replay) -> Iterator[Comparison]:
    """Yield the comparison of each job at each instant of a replay."""
    scenario, timeline = replay.scenario, replay.timeline
    instants = sorted({job.arrival for job in scenario.jobs.values()} | {event.at for event in scenario.file.events})
    for before, at in zip([-1, *instants], instants, strict=False):
        changed = any(event.at <= at for event in scenario.file.events)
        settings = _changed(scenario) if changed else scenario.settings
        jobs = [_job(scenario, timeline, name, before) for name, job in scenario.jobs.items() if job.arrival <= at]
        capacity = capacity_of(settings)
        found = forecast(
            queue_tree(settings),
            jobs,
            units(capacity.total or {}),
            node=units(capacity.node or {}),
            scheduling=stack_scheduling(settings),
        )
        for job in jobs:
            placed, lost = _placed(timeline, job.name, at), _lost(timeline, job.name, at)
            yield Comparison(at, job.name, found.jobs[job.name], _outcome(job, placed, lost), lost)


def _comes_to_rest(settings: StackSettings) -> bool:
    """Return whether no limit is below a share: a job between both evicts pods in vain, again and again."""
    tree, capacity = queue_tree(settings), capacity_of(settings)
    scheduled = tree if stack_scheduling(settings).tree else flattened(tree)
    bounds = limits(scheduled, units(capacity.total or {}))
    return all(
        amount <= bounds[name].get(resource, amount)
        for name, queue in tree.queues.items()
        for resource, amount in queue.amounts("deserved").items()
    )


def _document(random: Random, seed: int, preset: str) -> dict[str, Any]:
    queues = _queues(random)
    leaves = [name for name in queues if name != "team"]
    sizes = (8,) if random.random() < 0.65 else (1, 2, 4, 8)
    borrower = random.choice(leaves)
    jobs = {}
    for number in range(random.randint(6, 8)):
        pods = random.choice((2, 3, 4) if number < 2 else (1, 1, 2, 2, 3))
        job: dict[str, Any] = {
            # The first jobs borrow, so that later ones have something to reclaim.
            "queue": borrower if number < 3 and random.random() < 0.8 else random.choice(leaves),
            "at": f"{number}h",
            "pods": pods,
            "perPod": {GPU: str(random.choice(sizes))},
        }
        if pods > 1 and random.random() < 0.5:
            job["minMember"] = random.choice((1, pods - 1))
        if random.random() < 0.35:
            job["priorityClass"] = random.choice(("urgent", "patient", "patient", CRITICAL))
        jobs[f"job-{number}"] = job
    change = {"deserved": _amount(random, (8, 16, 24))}
    event = {"at": f"{len(jobs)}h", "queue": random.choice(leaves), "change": change}
    return {
        "title": f"Random state {seed}",
        "fabric": FABRIC,
        "queues": queues,
        "priorityClasses": CLASSES,
        "scheduler": {"preset": preset},
        "jobs": jobs,
        "events": [event],
    }


def _add_resource(random: Random, document: dict[str, Any]) -> None:
    """Give the jobs cpu, and some of the queues a share of it."""
    for job in document["jobs"].values():
        job["perPod"][CPU] = str(random.choice((8, 24, 48)))
    for queue in document["queues"].values():
        if "deserved" in queue and "parent" not in queue and random.random() < 0.4:
            queue["deserved"][CPU] = str(random.choice((48, 96)))


def _queues(random: Random) -> dict[str, Any]:
    queues: dict[str, Any] = {}
    for name in "abcd"[: random.randint(2, 4)]:
        queue: dict[str, Any] = {}
        if random.random() < 0.8:
            queue["deserved"] = _amount(random, (8, 8, 16))
            if random.random() < 0.2:
                queue["guarantee"] = _amount(random, (8,))
        if random.random() < 0.15:
            queue["capability"] = _amount(random, (16, 24))
        if random.random() < 0.12:
            queue["reclaimable"] = False
        queues[name] = queue
    if random.random() < 0.4:
        queues = {"team": {"deserved": _amount(random, (16, 24))}, **queues}
        for name in "ab":
            queues[name] = {**queues[name], "parent": "team"}
    return queues


def _amount(random: Random, values: tuple[int, ...]) -> dict[str, str]:
    return {GPU: str(random.choice(values))}


def _changed(scenario: Scenario) -> StackSettings:
    settings = scenario.settings
    queues = dict(settings.queues)
    for event in scenario.file.events:
        assert event.queue is not None
        values = queues[event.queue].model_dump(by_alias=True, mode="json", exclude_unset=True)
        queues[event.queue] = QueueSettings.model_validate({**values, **event.change})
    return settings.model_copy(update={"queues": queues})


def _job(scenario: Scenario, timeline: Timeline, name: str, before: int) -> QueuedJob:
    job = scenario.jobs[name]
    settings = scenario.settings.priority_classes.get(job.priority_class or "")
    placed = _placed(timeline, name, before)
    critical = job.priority_class == CRITICAL
    request = units(job.per_pod)
    return QueuedJob(
        name=name,
        queue=job.queue,
        request={each: amount * (placed or job.pods) for each, amount in request.items()},
        running=placed >= job.min_member,
        priority=2_000_000_000 if critical else settings.value if settings else 0,
        created=f"{job.arrival:06}",
        pods=tuple(GangPod(request, index < placed, not critical) for index in range(job.pods)),
        min_member=job.min_member,
        preempts=settings is None or settings.preempts,
    )


def _placed(timeline: Timeline, name: str, at: int) -> int:
    return sum(run.job == name and run.began <= at and (run.ended is None or run.ended > at) for run in timeline.runs)


def _lost(timeline: Timeline, name: str, at: int) -> int:
    return sum(run.job == name and run.ended == at and run.ending is Ending.LOST for run in timeline.runs)


def _outcome(job: QueuedJob, placed: int, lost: int) -> ForecastState:
    ready = placed >= job.needed
    if not job.running:
        return ForecastState.STARTS if ready else ForecastState.WAITS
    if not lost:
        return ForecastState.RUNS
    before = sum(pod.placed for pod in job.members)
    return ForecastState.SHRINKS if ready and lost < before else ForecastState.EVICTED
