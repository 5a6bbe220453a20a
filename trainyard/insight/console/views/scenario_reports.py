"""Reports of `trainyard simulate` in a folder, with their timelines."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from trainyard.cluster_state.body_fields import sequence, text, whole
from trainyard.errors import TrainyardError

MAX_BYTES: Final = 16 << 20
"""Size of a report."""
WIDTH: Final = 1000
_JOBS: Final = 500
_BARS: Final = 2000
_LARGEST: Final = 10**9
_LONGEST: Final = 1000


@dataclass(frozen=True)
class ScenarioBar:
    """Interval in which a job waits or runs, in parts of the width."""

    style: str
    left: int
    width: int


@dataclass(frozen=True)
class ScenarioJob:
    """A job of a report; times are seconds of scenario time, None: it never started."""

    name: str
    queue: str
    pods: int
    arrived: int
    started: int | None
    waited: int
    restarts: int
    state: str


@dataclass(frozen=True)
class ReportedExpectation:
    """An expectation of a report: when, what was expected and observed, and whether it holds."""

    instant: str
    expected: str
    observed: str
    holds: bool


@dataclass(frozen=True)
class ScenarioReport:
    """A report.

    Parameters
    ----------
    file
        Name of its file, without suffix.
    name
        Name of the scenario.
    holds
        Whether all expectations hold.
    seconds
        Length, in scenario time.
    jobs
        The jobs, each with the parts of its timeline.
    more
        Number of jobs that are not listed.
    expectations
        The expectations.
    has_drawing
        Whether the folder has its drawing.
    """

    file: str
    name: str
    holds: bool
    seconds: int
    jobs: tuple[tuple[ScenarioJob, tuple[ScenarioBar, ...]], ...]
    more: int
    expectations: tuple[ReportedExpectation, ...]
    has_drawing: bool = False


def scenario_report(file: str, content: str, *, has_drawing: bool = False) -> ScenarioReport:
    """Return a report of ``trainyard simulate --output json``.

    Raises
    ------
    TrainyardError
        It is something else.
    """
    try:
        report = json.loads(content)
    except (ValueError, RecursionError):
        report = None
    if not isinstance(report, dict) or not isinstance(report.get("jobs"), list) or not text(report, "scenario"):
        raise TrainyardError(f"{file} is no report", fix="write it with `trainyard simulate SCENARIO -o json`")
    seconds = max(1, _number(report, "seconds"))
    runs: dict[str, list[Mapping[str, Any]]] = {}
    for run in sequence(report, "runs"):
        runs.setdefault(text(run, "job"), []).append(run)
    jobs = sequence(report, "jobs")
    budget = _BARS
    rows = []
    for job in map(_job, jobs[:_JOBS]):
        bars = _bars(job, runs.get(job.name, []), seconds)[: max(0, budget)]
        budget -= len(bars)
        rows.append((job, bars))
    return ScenarioReport(
        file=file,
        name=text(report, "scenario"),
        holds=report.get("ok") is True,
        seconds=seconds,
        jobs=tuple(rows),
        more=max(0, len(jobs) - _JOBS),
        expectations=tuple(map(_expectation, sequence(report, "expectations")[:_JOBS])),
        has_drawing=has_drawing,
    )


def _number(values: Mapping[str, Any], name: str, default: int = 0) -> int:
    """Return a number that is not negative, and small enough to be drawn."""
    return min(max(0, whole(values, name, default=default)), _LARGEST)


def _job(values: Mapping[str, Any]) -> ScenarioJob:
    started = _number(values, "started") if isinstance(values.get("started"), int) else None
    pods, arrived, waited, restarts = (_number(values, name) for name in ("pods", "arrived", "waited", "restarts"))
    name, queue, state = (text(values, name) for name in ("name", "queue", "state"))
    return ScenarioJob(name, queue, pods, arrived, started, waited, restarts, state)


def _expectation(values: Mapping[str, Any]) -> ReportedExpectation:
    instant, expected, observed = (str(values.get(name, ""))[:_LONGEST] for name in ("instant", "expected", "observed"))
    return ReportedExpectation(instant, expected, observed, values.get("holds") is True)


def _bars(job: ScenarioJob, runs: list[Mapping[str, Any]], seconds: int) -> tuple[ScenarioBar, ...]:
    """Return the wait of a job until it first starts, and the intervals in which pods of it run."""

    def place(begin: int, end: int) -> tuple[int, int]:
        left = min(WIDTH, max(0, round(begin / seconds * WIDTH)))
        return left, max(2, min(WIDTH, round(end / seconds * WIDTH)) - left)

    waits = job.arrived, seconds if job.started is None else job.started
    bars = [ScenarioBar("waiting", *place(*waits))] if waits[1] > waits[0] else []
    spans = {(_number(run, "began"), _number(run, "ended", seconds), text(run, "ending")) for run in runs}
    for begin, end, ending in sorted(spans):
        bars.append(ScenarioBar("lost" if ending == "lost" else "running", *place(begin, max(begin, end))))
    return tuple(bars)
