"""Expectations of a scenario at an instant, checked against the observed state."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import Field, model_validator

from trainyard import quantity
from trainyard.checks.report.text import counted, listed
from trainyard.local.simulate.clock import Duration, shown
from trainyard.local.simulate.name_list import Names
from trainyard.local.simulate.timeline import JobPhase, Timeline
from trainyard.settings.settings_model import DnsLabel, Resources, SettingsModel

if TYPE_CHECKING:
    from trainyard.local.simulate.scenario import Scenario


_OF_JOBS = ("state", "count", "pods", "within", "domains", "only_on", "nodes", "restarts", "lost", "started")
_OF_QUEUES = ("uses", "uses_at_most", "uses_at_least")


class Expectation(SettingsModel):
    """An expectation of jobs, a queue or the nodes at an instant."""

    at: Duration | None = Field(default=None, description="Instant; the end if unset")
    job: str | None = Field(default=None, description="Job, or a pattern of several jobs (filler-*)")
    state: JobPhase | None = Field(default=None, description="State of the jobs")
    count: int | None = Field(default=None, ge=0, description="Number of jobs in that state; all if unset")
    pods: int | None = Field(default=None, ge=0, description="Number of placed pods of each job")
    within: DnsLabel | None = Field(default=None, description="Tier in which all placed pods of a job share a domain")
    domains: dict[DnsLabel, int] = Field(default={}, description="Number of domains with pods of a job, by tier")
    only_on: Names = Field(default=(), description="Nodes or domains that contain all pods")
    nodes: int | None = Field(default=None, ge=0, description="Number of nodes with pods of a job")
    restarts: int | None = Field(default=None, ge=0, description="Number of restarts of each job so far")
    lost: int | None = Field(default=None, ge=0, description="Number of its placed pods that were lost so far")
    started: Duration | None = Field(default=None, description="Instant at which each job first ran")
    queue: DnsLabel | None = Field(default=None, description="Queue")
    uses: Resources = Field(default={}, description="Exact sum of the requests of the queue's pods")
    uses_at_most: Resources = Field(default={}, description="Upper bound of the sum")
    uses_at_least: Resources = Field(default={}, description="Lower bound of the sum")
    free_nodes: int | None = Field(default=None, ge=0, description="Number of nodes without pods")

    @model_validator(mode="after")
    def _one_subject(self) -> Expectation:
        jobs = [name for name in _OF_JOBS if getattr(self, name) not in (None, {}, ())]
        queues = [name for name in _OF_QUEUES if getattr(self, name)]
        if bool(jobs) != bool(self.job) or bool(queues) != bool(self.queue):
            raise ValueError("job requires an expectation of jobs, and queue requires uses, usesAtMost or usesAtLeast")
        if not (jobs or queues or self.free_nodes is not None):
            raise ValueError("expects nothing: set job, queue or freeNodes")
        if self.count is not None and self.state is None:
            raise ValueError("count requires state")
        return self

    @property
    def instant(self) -> str:
        """The instant as text."""
        return "at the end" if self.at is None else f"at {shown(self.at)}"


@dataclass(frozen=True)
class ExpectationResult:
    """Result of an expectation.

    Parameters
    ----------
    path
        Its path in the file.
    instant
        Instant of the evaluation, as text.
    expected, observed
        Expected and observed state, as text.
    holds
        Whether the expectation holds.
    """

    path: str
    instant: str
    expected: str
    observed: str
    holds: bool

    def __str__(self) -> str:
        return f"{self.path} {self.instant}: expected {self.expected}, observed {self.observed}"


def evaluate(index: int, expectation: Expectation, scenario: Scenario, seen: Timeline) -> list[ExpectationResult]:
    """Evaluate an expectation on the timeline so far; one result for each condition."""
    path = f"expect[{index}]"
    found = [*_jobs(expectation, scenario, seen), *_queue(expectation, seen)]
    if expectation.free_nodes is not None:
        free = len(seen.free_nodes)
        found.append((f"{expectation.free_nodes} free nodes", f"{free} free nodes", free == expectation.free_nodes))
    return [ExpectationResult(path, expectation.instant, *each) for each in found]


_Result = tuple[str, str, bool]


def _jobs(expectation: Expectation, scenario: Scenario, seen: Timeline) -> Iterator[_Result]:
    names = scenario.matching(expectation.job) if expectation.job else []
    if expectation.count is not None:
        inside = [name for name in names if seen.state(name) is expectation.state]
        what = f"of {expectation.job} {expectation.state}"
        shown_names = f" ({', '.join(inside[:6])}{', …' if len(inside) > 6 else ''})" if inside else ""
        observed = f"{len(inside)}{shown_names}"
        yield f"{expectation.count} {what}", observed, len(inside) == expectation.count
    for name in names:
        if expectation.count is None or seen.state(name) is expectation.state:
            yield from _job(expectation, name, scenario, seen)


def _job(expectation: Expectation, name: str, scenario: Scenario, seen: Timeline) -> Iterator[_Result]:
    places = seen.places(name)
    where = _where(places)
    if expectation.state is not None and expectation.count is None:
        state = seen.state(name)
        yield f"job {name} {expectation.state}", f"{state}{where}", state is expectation.state
    if expectation.pods is not None:
        yield f"{expectation.pods} pods of {name} placed", f"{len(places)}{where}", len(places) == expectation.pods
    spread = {**({expectation.within: 1} if expectation.within else {}), **expectation.domains}
    for tier, count in spread.items():
        domains = seen.domains(name, tier)
        text = f"job {name} in {counted(count, 'domain')} of tier {tier}"
        observed = f"{len(domains)} ({', '.join(domains)})" if domains else "no pod placed"
        yield text, observed, len(domains) == count
    if expectation.only_on:
        allowed = set(scenario.nodes(expectation.only_on))
        outside = sorted({node for node in places.values() if node not in allowed})
        text = f"job {name} only on {', '.join(expectation.only_on)}"
        yield text, f"also on {', '.join(outside[:6])}" if outside else f"so{where}", bool(places) and not outside
    if expectation.nodes is not None:
        nodes = len(set(places.values()))
        yield f"job {name} on {expectation.nodes} nodes", f"{nodes}{where}", nodes == expectation.nodes
    if expectation.restarts is not None:
        restarts = seen.restarts(name)
        yield (
            f"job {name} restarted {expectation.restarts} times",
            f"{restarts} times",
            restarts == expectation.restarts,
        )
    if expectation.lost is not None:
        lost = seen.lost(name)
        yield f"job {name} lost {expectation.lost} pods", f"{lost} pods", lost == expectation.lost
    if expectation.started is not None:
        started = seen.started(name)
        observed = "never" if started is None else f"at {shown(started)}"
        yield f"job {name} first running at {shown(expectation.started)}", observed, started == expectation.started


def _where(places: dict[str, str]) -> str:
    nodes = sorted(set(places.values()))
    return f" on {listed(nodes, 4)}" if nodes else ""


def _queue(expectation: Expectation, seen: Timeline) -> Iterator[_Result]:
    if expectation.queue is None:
        return
    used = seen.used(expectation.queue)
    for word, bounds in (
        ("", expectation.uses),
        ("at most ", expectation.uses_at_most),
        ("at least ", expectation.uses_at_least),
    ):
        for resource, bound in bounds.items():
            amount, limit = used.get(resource, quantity.parse(0)), quantity.parse(bound)
            holds = {"": amount == limit, "at most ": amount <= limit, "at least ": amount >= limit}[word]
            text = f"queue {expectation.queue} using {word}{bound} {resource}"
            yield text, quantity.format(amount, resource), holds
