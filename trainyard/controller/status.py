"""The status of a TrainJob as a pure function of what was observed: upstream's conditions, nothing more.

Clients rely on what is absent as much as on what is present: the SDK calls a job Running only while it has no condition
at all, and the printed State is the type of the last condition of the list.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any

from trainyard.api.constants import (
    COMPLETE,
    DEADLINE_EXCEEDED_MESSAGE,
    DEADLINE_EXCEEDED_REASON,
    FAILED,
    RESUMED_MESSAGE,
    RESUMED_REASON,
    RUNTIME_NOT_SUPPORTED_REASON,
    SUSPENDED,
    SUSPENDED_MESSAGE,
    SUSPENDED_REASON,
)

__all__ = [
    "condition",
    "deadline",
    "deadline_exceeded",
    "finished",
    "overdue",
    "runtime_not_supported",
    "status_of",
    "timestamp",
]

Body = Mapping[str, Any]
_TERMINAL = {"Completed": COMPLETE, "Failed": FAILED}
_COUNTS = ("ready", "succeeded", "failed", "active", "suspended")


def status_of(train_job: Body, job_set: Body | None, *, now: datetime.datetime) -> dict[str, Any]:
    """Return the status a TrainJob should have.

    Parameters
    ----------
    train_job
        The TrainJob as stored.
    job_set
        Its JobSet, None where there is none.
    now
        Time of a transition that is decided here.
    """
    status = dict(train_job.get("status") or {})
    conditions = [dict(entry) for entry in status.get("conditions") or ()]
    if (train_job.get("spec") or {}).get("suspend"):
        _set(conditions, SUSPENDED, "True", SUSPENDED_REASON, SUSPENDED_MESSAGE, timestamp(now))
    elif condition(train_job, SUSPENDED, "True"):
        _set(conditions, SUSPENDED, "False", RESUMED_REASON, RESUMED_MESSAGE, timestamp(now))
    if job_set is not None:
        if not finished(train_job):
            _copy_terminal(conditions, job_set, now)
        observed = (job_set.get("status") or {}).get("replicatedJobsStatus") or ()
        jobs = [
            {"name": entry["name"], **{count: int(entry.get(count) or 0) for count in _COUNTS}} for entry in observed
        ]
        if jobs:
            status["jobsStatus"] = jobs
    if conditions:
        status["conditions"] = conditions
    return status


def deadline_exceeded(status: Body, *, now: datetime.datetime) -> dict[str, Any]:
    """Return a status that says that the job ran longer than it may."""
    return _failed(status, DEADLINE_EXCEEDED_REASON, DEADLINE_EXCEEDED_MESSAGE, now)


def runtime_not_supported(status: Body, kind: str, *, now: datetime.datetime) -> dict[str, Any]:
    """Return a status that says that the job names a kind of runtime that does not exist."""
    return _failed(status, RUNTIME_NOT_SUPPORTED_REASON, f"unsupported runtime: {kind}", now)


def finished(train_job: Body) -> bool:
    """Return whether the job is over, one way or the other; that never changes again."""
    return bool(condition(train_job, COMPLETE, "True") or condition(train_job, FAILED, "True"))


def overdue(train_job: Body) -> bool:
    """Return whether the job was ended by its deadline: its JobSet has to go."""
    failed = condition(train_job, FAILED, "True")
    return failed is not None and failed.get("reason") == DEADLINE_EXCEEDED_REASON


def condition(body: Body, kind: str, status: str | None = None) -> Body | None:
    """Return the condition of a type, and of a status if one is asked for."""
    for entry in (body.get("status") or {}).get("conditions") or ():
        if entry.get("type") == kind and status in (None, entry.get("status")):
            found: Body = entry
            return found
    return None


def deadline(train_job: Body, status: Body) -> datetime.datetime | None:
    """Return when a running job's time is up, None where it has no limit, is suspended or is over.

    The time counts from the creation or, for a job that was suspended, from its last resume.

    Parameters
    ----------
    train_job
        The TrainJob as stored.
    status
        Its status as it should be.
    """
    spec = train_job.get("spec") or {}
    seconds = spec.get("activeDeadlineSeconds")
    view = {"status": status}
    if seconds is None or spec.get("suspend") or finished(view):
        return None
    resumed = condition(view, SUSPENDED, "False")
    start = resumed["lastTransitionTime"] if resumed else train_job["metadata"].get("creationTimestamp")
    return None if start is None else _parsed(start) + datetime.timedelta(seconds=int(seconds))


def timestamp(now: datetime.datetime) -> str:
    """Return a time as the API writes it."""
    return now.astimezone(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _parsed(text: str) -> datetime.datetime:
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))


def _copy_terminal(conditions: list[dict[str, Any]], job_set: Body, now: datetime.datetime) -> None:
    for theirs, ours in _TERMINAL.items():
        entry = condition(job_set, theirs, "True")
        if entry is not None:
            when = str(entry.get("lastTransitionTime") or timestamp(now))
            _set(conditions, ours, "True", str(entry.get("reason") or theirs), str(entry.get("message") or ""), when)
            return


def _failed(status: Body, reason: str, message: str, now: datetime.datetime) -> dict[str, Any]:
    conditions = [dict(entry) for entry in status.get("conditions") or ()]
    _set(conditions, FAILED, "True", reason, message, timestamp(now))
    return {**status, "conditions": conditions}


def _set(conditions: list[dict[str, Any]], kind: str, status: str, reason: str, message: str, when: str) -> None:
    """Set a condition in place or append it; its transition time changes with its status only."""
    for entry in conditions:
        if entry["type"] == kind:
            if entry["status"] != status:
                entry["lastTransitionTime"] = when
            entry |= {"status": status, "reason": reason, "message": message}
            return
    conditions.append(
        {"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": when}
    )
