"""Reports of `trainyard simulate` in a folder, with their timelines."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from trainyard.errors import TrainyardError
from trainyard.explain.body_fields import sequence, text, whole

__all__ = ["MAX_BYTES", "ScenarioBar", "ScenarioReport", "scenario_report"]

MAX_BYTES: Final = 16 << 20
"""Size of a report."""
WIDTH: Final = 1000
_JOBS: Final = 500
_BARS: Final = 2000


@dataclass(frozen=True)
class ScenarioBar:
    """Interval in which a job waits or runs, in parts of the width."""

    style: str
    left: int
    width: int


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
    jobs: tuple[tuple[Mapping[str, Any], tuple[ScenarioBar, ...]], ...]
    more: int
    expectations: tuple[Mapping[str, Any], ...]
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
    except ValueError:
        report = None
    if not isinstance(report, dict) or not isinstance(report.get("jobs"), list) or not text(report, "scenario"):
        raise TrainyardError(f"{file} is no report", fix="write it with `trainyard simulate SCENARIO -o json`")
    seconds = max(1, whole(report, "seconds"))
    runs: dict[str, list[Mapping[str, Any]]] = {}
    for run in sequence(report, "runs"):
        runs.setdefault(text(run, "job"), []).append(run)
    jobs = sequence(report, "jobs")
    budget = _BARS
    rows = []
    for job in jobs[:_JOBS]:
        bars = _bars(job, runs.get(text(job, "name"), []), seconds)[: max(0, budget)]
        budget -= len(bars)
        rows.append((job, bars))
    return ScenarioReport(
        file=file,
        name=text(report, "scenario"),
        holds=report.get("ok") is True,
        seconds=seconds,
        jobs=tuple(rows),
        more=max(0, len(jobs) - _JOBS),
        expectations=tuple(sequence(report, "expectations")),
        has_drawing=has_drawing,
    )


def _bars(job: Mapping[str, Any], runs: list[Mapping[str, Any]], seconds: int) -> tuple[ScenarioBar, ...]:
    """Return the wait of a job until it first starts, and the intervals in which pods of it run."""

    def place(begin: int, end: int) -> tuple[int, int]:
        left = min(WIDTH, max(0, round(begin / seconds * WIDTH)))
        return left, max(2, min(WIDTH, round(end / seconds * WIDTH)) - left)

    started = job.get("started")
    waits = whole(job, "arrived"), started if isinstance(started, int) else seconds
    bars = [ScenarioBar("waiting", *place(*waits))] if waits[1] > waits[0] else []
    spans = {(whole(run, "began"), whole(run, "ended", default=seconds), text(run, "ending")) for run in runs}
    for begin, end, ending in sorted(spans):
        bars.append(ScenarioBar("lost" if ending == "lost" else "running", *place(begin, max(begin, end))))
    return tuple(bars)
