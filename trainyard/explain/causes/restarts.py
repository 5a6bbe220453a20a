"""Causes in restarts: a gang that lost a member."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from trainyard.explain.body_fields import Body, condition, mapping, name_of, namespace_of, sequence, text, whole
from trainyard.explain.cause import Cause, Family, Found
from trainyard.explain.observed import Kind
from trainyard.explain.situation import Situation, State

__all__ = ["FAMILY"]

_EXHAUSTED: Final = "ReachedMaxRestarts"
_EVICTED: Final = frozenset({"Evict", "Evicted", "TaintManagerEviction", "Preempted", "DisruptionTarget"})
_MAXIMUM: Final = 300
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
EXHAUSTED: Final = Cause(
    "restarts-exhausted",
    "Restarts exhausted",
    "condition Failed with reason ReachedMaxRestarts; `spec.failurePolicy.maxRestarts` of the JobSet",
    "it failed after {restarts} restarts, the maximum; last: {reason}",
    "correct the reason; then delete the job and create it again, or set a higher maxRestarts",
    {"restarts": 3, "reason": "Job train-node-0 failed (BackoffLimitExceeded)"},
)


def _find(situation: Situation) -> Iterator[Found]:
    job_set = situation.job_set
    ended = condition(situation.root, "Failed")
    restarts = whole(job_set, "status", "restarts")
    if situation.kind == Kind.VOLCANO_JOB:
        restarts = whole(situation.root, "status", "retryCount")
    if ended is not None and text(ended, "reason") == _EXHAUSTED:
        limit = whole(job_set, "spec", "failurePolicy", "maxRestarts")
        yield EXHAUSTED.found(restarts=restarts or limit, reason=_reason(situation)[0])
    elif not situation.ended and situation.state is not State.RUNNING and restarts:
        maximum = mapping(job_set, "spec", "failurePolicy").get("maxRestarts")
        reason, remedy = _reason(situation)
        bound = f" of at most {maximum}" if isinstance(maximum, int) else ""
        yield RESTARTING.found(restarts=restarts, bound=bound, reason=reason, remedy=remedy)


def _reason(situation: Situation) -> tuple[str, str]:
    """Return why the gang restarted last, and what to do."""
    index = situation.index
    events = [
        (text(event, "lastTimestamp") or text(event, "eventTime"), text(event, "involvedObject", "name"), event)
        for event in index.of(Kind.EVENT)
        if text(event, "reason") in _EVICTED and _belongs(situation, event)
    ]
    if events:
        _, name, event = max(events, key=lambda each: each[:2])
        message = text(event, "message")[:_MAXIMUM]
        by = _PREEMPTED.search(message)
        shares = by is not None and by[1] in ("reclaim", "preempt")
        remedy = (
            "its queue is above its share or a job of higher priority needs the nodes: request within the share, or "
            "save progress often"
            if shares
            else "ask the platform team about the node; save progress often"
        )
        return f"pod {name} was evicted ({text(event, 'reason')}: {message})", remedy
    read = f"read the logs: `kubectl logs -n {situation.namespace or 'default'} POD --previous`"
    for pod in situation.all_pods:
        for status in sequence(pod, "status", "containerStatuses"):
            last = mapping(status, "state", "terminated") or mapping(status, "lastState", "terminated")
            if code := whole(last, "exitCode"):
                container, why = text(status, "name"), text(last, "reason") or "Error"
                return f"container {container} of pod {name_of(pod)} ended with exit code {code} ({why})", read
    for job in situation.jobs:
        failed = condition(job, "Failed")
        if failed is not None:
            return f"Job {name_of(job)} failed ({text(failed, 'reason')}: {text(failed, 'message')[:_MAXIMUM]})", read
    for body in (situation.job_set, situation.root):
        found = [event for event in index.events(body) if "estart" in text(event, "reason")] if body is not None else []
        if found:
            return text(found[-1], "message")[:_MAXIMUM], read
    return "its events are gone", read


def _belongs(situation: Situation, event: Body) -> bool:
    """Return whether the pod of an event, which may be gone, belonged to the job."""
    if (text(event, "involvedObject", "namespace") or namespace_of(event)) != situation.namespace:
        return False
    pod = text(event, "involvedObject", "name")
    owners = [name_of(job) for job in situation.jobs] or [situation.name]
    return any(pod.startswith(f"{owner}-") for owner in owners)


FAMILY: Final = Family("Restarts", 8, (RESTARTING, EXHAUSTED), _find)
