"""Causes in restarts: a gang that lost a member."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator
from typing import Final

from trainyard.cluster_state.body_fields import (
    Body,
    condition,
    mapping,
    name_of,
    namespace_of,
    text,
    time,
    whole,
)
from trainyard.cluster_state.observed import Kind
from trainyard.insight.explain.cause import Cause, Family, Found
from trainyard.insight.explain.job_state import ExplainedState, JobState
from trainyard.insight.explain.pod_ends import ends_of

_EXHAUSTED: Final = "ReachedMaxRestarts"
_EVICTED: Final = frozenset({"Evict", "Evicted", "TaintManagerEviction", "Preempted", "DisruptionTarget"})
_MAXIMUM: Final = 300
_UNKNOWN: Final = datetime.datetime.min.replace(tzinfo=datetime.UTC)
"""Time of what has none: everything else is newer."""
_PREEMPTED: Final = re.compile(r"because of (\w+)")

RESTARTING: Final = Cause(
    "gang-restarting",
    "Gang that lost a member and restarts",
    "`status.restarts` and events of the JobSet; events of its pods and of the PodGroup",
    "the gang lost a member and starts again (restarts: {restarts}{bound}); last: {reason}",
    "{remedy}",
    {
        **{
            "restarts": 2,
            "bound": " of at most 3",
            "reason": "pod train-node-0-1 was evicted (Evict: because of reclaim)",
        },
        "remedy": "its queue is above its share and others take theirs back: request less, or save progress",
    },
)
RESTARTED: Final = Cause(
    "gang-restarted",
    "Gang that restarted and runs again",
    "`status.restarts` and events of the JobSet; events of its pods and of the PodGroup",
    "it has lost a member before and was started again (restarts: {restarts}{bound}); last: {reason}",
    "{remedy}",
    {
        **{"restarts": 2, "bound": " of at most 3"},
        "reason": "container node of pod train-node-0-1 ended with exit code 137 (OOMKilled)",
        "remedy": "read the logs: `kubectl logs -n vision POD --previous`",
    },
)
EXHAUSTED: Final = Cause(
    "restarts-exhausted",
    "Restarts exhausted",
    "condition Failed with reason ReachedMaxRestarts; `spec.failurePolicy.maxRestarts` of the JobSet",
    "it failed after {restarts} restarts, the maximum; last: {reason}",
    "correct the reason; then delete the job and create it again, or set a higher maxRestarts",
    {"restarts": 3, "reason": "Job train-node-0 failed (BackoffLimitExceeded)"},
)


def _find(job_state: JobState) -> Iterator[Found]:
    job_set = job_state.job_set
    ended = condition(job_state.root, "Failed")
    restarts = whole(job_set, "status", "restarts")
    if job_state.kind == Kind.VOLCANO_JOB:
        restarts = whole(job_state.root, "status", "retryCount")
    if ended is not None and text(ended, "reason") == _EXHAUSTED:
        limit = whole(job_set, "spec", "failurePolicy", "maxRestarts")
        yield EXHAUSTED.found(restarts=restarts or limit, reason=_reason(job_state)[0])
    elif not job_state.ended and (restarts or _lost(job_state)):
        maximum = mapping(job_set, "spec", "failurePolicy").get("maxRestarts")
        reason, remedy = _reason(job_state)
        bound = f" of at most {maximum}" if isinstance(maximum, int) else ""
        cause = RESTARTED if job_state.state is ExplainedState.RUNNING else RESTARTING
        yield cause.found(restarts=restarts, bound=bound, reason=reason, remedy=remedy)


def _lost(job_state: JobState) -> bool:
    """Return whether pods failed that the Job of the gang replaces, without a restart of the JobSet."""
    if job_state.state not in (ExplainedState.WAITING, ExplainedState.STARTING) or job_state.initializers:
        return False
    return any(text(pod, "status", "phase") == "Failed" for pod in job_state.all_pods)


def _reason(job_state: JobState) -> tuple[str, str]:
    """Return why the gang restarted last, and what to do: the newest of what is known, or an eviction."""
    found = [*_evictions(job_state), *_failures(job_state)]
    if found:
        _, reason, remedy = max(found, key=lambda each: each[0])
        return reason, remedy
    for body in (job_state.job_set, job_state.root):
        events = job_state.index.events(body) if body is not None else []
        if restarts := [event for event in events if "estart" in text(event, "reason")]:
            return text(restarts[-1], "message")[:_MAXIMUM], _logs(job_state)
    return "its events are gone", _logs(job_state)


def _logs(job_state: JobState) -> str:
    return f"read the logs: `kubectl logs -n {job_state.namespace or 'default'} POD --previous`"


def _evictions(job_state: JobState) -> Iterator[tuple[datetime.datetime, str, str]]:
    """Yield when pods of the gang were evicted, why, and what to do."""
    for event in job_state.index.of(Kind.EVENT):
        if text(event, "reason") not in _EVICTED or not _belongs(job_state, event):
            continue
        message = text(event, "message")[:_MAXIMUM]
        by = _PREEMPTED.search(message)
        remedy = (
            "its queue is above its share or a job of higher priority needs the nodes: request within the share, or "
            "save progress often"
            if by is not None and by[1] in ("reclaim", "preempt")
            else "ask the platform team about the node; save progress often"
        )
        when = time(event, "lastTimestamp") or time(event, "eventTime") or _UNKNOWN
        name = text(event, "involvedObject", "name")
        yield when, f"pod {name} was evicted ({text(event, 'reason')}: {message})", remedy


def _failures(job_state: JobState) -> Iterator[tuple[datetime.datetime, str, str]]:
    """Yield when containers and Jobs of the gang failed, how, and what to do."""
    for pod in job_state.all_pods:
        yield from ((end.when, end.message, end.remedy) for end in ends_of(pod, previous=True))
    for job in job_state.jobs:
        failed = condition(job, "Failed")
        if failed is not None:
            why = f"{text(failed, 'reason')}: {text(failed, 'message')[:_MAXIMUM]}"
            yield time(failed, "lastTransitionTime") or _UNKNOWN, f"Job {name_of(job)} failed ({why})", _logs(job_state)


def _belongs(job_state: JobState, event: Body) -> bool:
    """Return whether the pod of an event, which may be gone, belonged to the job."""
    if (text(event, "involvedObject", "namespace") or namespace_of(event)) != job_state.namespace:
        return False
    pod = text(event, "involvedObject", "name")
    owners = [name_of(job) for job in job_state.jobs] or [job_state.name]
    return any(pod.startswith(f"{owner}-") for owner in owners)


FAMILY: Final = Family("Restarts", 8, (RESTARTING, RESTARTED, EXHAUSTED), _find)
