"""Timeline of one job as a drawing: when it waited, ran, was suspended, or waited again for what was taken back."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from trainyard.cluster_state.body_fields import condition, mapping, sequence, text, time
from trainyard.insight.console.views.platform_view import age_text
from trainyard.insight.explain.job_state import ExplainedState, JobState

WIDTH: Final = 1000
"""Width of a drawing."""
_MOST: Final = 200
"""Phases of a drawing: the newest."""
_WAITING, _RUNNING, _SUSPENDED, _TAKEN = "waiting", "running", "suspended", "taken back"
_KINDS: Final = {
    ExplainedState.WAITING: _WAITING,
    ExplainedState.STARTING: _RUNNING,
    ExplainedState.RUNNING: _RUNNING,
    ExplainedState.SUSPENDED: _SUSPENDED,
}
"""Kind of the phase that begins with a state."""
_EVICTED: Final = frozenset({"Evict", "Evicted", "Preempted"})
_ENDS: Final = frozenset({"Complete", "Completed", "Failed"})


@dataclass(frozen=True)
class StateChange:
    """A change of the state of a job that was seen."""

    when: datetime.datetime
    state: ExplainedState


@dataclass(frozen=True)
class Phase:
    """A time in which a job waited, ran, was suspended, or waited again after the scheduler took its devices back."""

    start: datetime.datetime
    end: datetime.datetime
    kind: str


@dataclass(frozen=True)
class Drawn:
    """A phase in a drawing of `WIDTH`."""

    left: int
    width: int
    style: str
    title: str


@dataclass(frozen=True)
class JobTimeline:
    """Phases of one job, in order.

    Parameters
    ----------
    phases
        The phases; none: nothing is known.
    ended
        Whether the job has ended.
    """

    phases: tuple[Phase, ...]
    ended: bool

    @property
    def label(self) -> str:
        """Text for those who do not see the drawing: each phase with its duration, and the sum of each kind."""
        shown = ", ".join(f"{each.kind} {age_text(each.end, each.start)}" for each in self.phases)
        return f"{shown}, {'ended' if self.ended else 'until now'}" if shown else "nothing is known"

    @property
    def drawn(self) -> tuple[Drawn, ...]:
        """The phases as segments of a bar; a short one is at least one unit wide."""
        if not self.phases:
            return ()
        first, last = self.phases[0].start, self.phases[-1].end
        whole = max((last - first).total_seconds(), 1.0)
        found = []
        for each in self.phases:
            left = min(WIDTH - 1, int((each.start - first).total_seconds() / whole * WIDTH))
            right = max(left + 1, round((each.end - first).total_seconds() / whole * WIDTH))
            title = f"{each.kind} {age_text(each.end, each.start)}, from {_shown(each.start)} to {_shown(each.end)}"
            found.append(Drawn(left, min(right, WIDTH) - left, each.kind.replace(" ", "-"), title))
        return tuple(found)

    @property
    def width(self) -> int:
        """Width of the drawing."""
        return WIDTH

    @property
    def start(self) -> str:
        """Its first instant, in UTC."""
        return _shown(self.phases[0].start) if self.phases else ""

    @property
    def end(self) -> str:
        """Its last instant, in UTC, or that it goes on."""
        return (_shown(self.phases[-1].end) if self.ended else "now") if self.phases else ""


def job_timeline(job_state: JobState, now: datetime.datetime, changes: Sequence[StateChange] = ()) -> JobTimeline:
    """Return the timeline of a job.

    Parameters
    ----------
    job_state
        The job.
    now
        The present instant.
    changes
        Changes of its state that were seen, oldest first. Of the time before them, only what its objects say is known:
        creation, the placement of the present pods, evictions, and the end.
    """
    seen = changes[0].when if changes else None
    points = [each for each in _recorded(job_state) if seen is None or each[0] < seen or each[1] == _TAKEN]
    points += [(each.when, kind) for each in changes if (kind := _KINDS.get(each.state))]
    ends = [when for when in _end_times(job_state) if when <= now]
    last = min(ends) if job_state.ended and ends else now
    phases: list[Phase] = []
    for when, kind in sorted(points, key=lambda point: point[0]):
        if when > last:
            continue
        before = phases[-1] if phases else None
        if before is not None:
            phases[-1] = replace(before, end=when)
            if before.kind == _TAKEN and kind == _WAITING:
                continue  # It waits again for what was taken back.
            if before.kind == kind:
                continue
        phases.append(Phase(when, when, kind))
    if phases:
        # A gang that lost some of its pods, and has enough left, runs on.
        runs = job_state.state in (ExplainedState.STARTING, ExplainedState.RUNNING) and phases[-1].kind == _TAKEN
        phases[-1] = replace(phases[-1], end=last, kind=_RUNNING if runs else phases[-1].kind)
    return JobTimeline(tuple(each for each in phases if each.end > each.start)[-_MOST:], job_state.ended)


def _recorded(job_state: JobState) -> Iterator[tuple[datetime.datetime, str]]:
    """Yield the instants that the objects of a job have, with what began then."""
    created = time(job_state.root, "metadata", "creationTimestamp")
    if created is None:
        return
    suspended = condition(job_state.root, "Suspended", None)
    since = time(suspended, "lastTransitionTime")
    now_suspended = mapping(job_state.root, "spec").get("suspend") is True
    resumed = since is not None and text(suspended, "status") == "False"
    if since is None and not now_suspended and (recorded := time(job_state.root, "status", "jobSet", "resumed")):
        since, resumed = recorded, True  # The condition is removed once the job has pods.
    yield created, _SUSPENDED if resumed or (now_suspended and since is None) else _WAITING
    if since is not None:
        yield since, _WAITING if resumed else _SUSPENDED
    yield from ((when, _TAKEN) for when in _evictions(job_state))
    pods = [pod for pod in job_state.all_pods if not mapping(pod, "metadata").get("deletionTimestamp")]
    placed = [time(condition(pod, "PodScheduled"), "lastTransitionTime") for pod in pods]
    known = [when for when in placed if when is not None]
    if known and len(known) == len(pods) and job_state.state is not ExplainedState.SUSPENDED:
        yield max(known), _RUNNING


def _evictions(job_state: JobState) -> Iterator[datetime.datetime]:
    for pod in job_state.all_pods:
        if (when := time(condition(pod, "DisruptionTarget"), "lastTransitionTime")) is not None:
            yield when
    for body in (job_state.pod_group, *job_state.all_pods):
        for event in job_state.index.events(body) if body is not None else ():
            when = time(event, "lastTimestamp") or time(event, "eventTime")
            if when is not None and text(event, "reason") in _EVICTED:
                yield when


def _end_times(job_state: JobState) -> Iterator[datetime.datetime]:
    for body in (job_state.root, job_state.job_set):
        for each in sequence(body, "status", "conditions"):
            when = time(each, "lastTransitionTime")
            if each.get("type") in _ENDS and each.get("status") == "True" and when is not None:
                yield when


def _shown(when: datetime.datetime) -> str:
    return when.astimezone(datetime.UTC).strftime("%Y-%m-%d %H:%M:%S")
