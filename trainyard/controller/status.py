"""TrainJob status as a pure function of the observed state: upstream's conditions and the record of the JobSet.

Clients depend on absent conditions too: the SDK reports a job as Running only while it has no conditions, and the
printer column State is the type of the last condition, whatever its status. So the condition Suspended is removed when
a resumed JobSet has pods; the time of the resume, from which a deadline counts, moves to status.jobSet.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any

from trainyard.api.constants import (
    BLOCKED,
    CLUSTER_TRAINING_RUNTIME,
    COMPLETE,
    DEADLINE_EXCEEDED_MESSAGE,
    DEADLINE_EXCEEDED_REASON,
    FAILED,
    GROUP,
    JOB_SET_MISSING_MESSAGE,
    JOB_SET_MISSING_REASON,
    MOST_JOBS,
    RESUMED_MESSAGE,
    RESUMED_REASON,
    RUNTIME_NOT_SUPPORTED_REASON,
    SUSPENDED,
    SUSPENDED_MESSAGE,
    SUSPENDED_REASON,
    TRAINING_RUNTIME,
)
from trainyard.checks.printable_text import printable

Body = Mapping[str, Any]
_TERMINAL = {"Completed": COMPLETE, "Failed": FAILED}
_ENDS = (COMPLETE, FAILED)
_RUNTIME_KINDS = (TRAINING_RUNTIME, CLUSTER_TRAINING_RUNTIME)
_COUNTS = ("ready", "succeeded", "failed", "active", "suspended")


def status_of(
    train_job: Body,
    job_set: Body | None,
    *,
    now: datetime.datetime,
    missing: bool = False,
    blocked: tuple[str, str] | None = None,
) -> dict[str, Any]:
    """Return the desired status of a TrainJob; a recorded end, and the record of its JobSet, never change.

    A runtime of an unknown kind fails only a TrainJob that never had a JobSet: a newer version may have created it.

    The record of a recreation is dropped if its JobSet runs or ended: such a JobSet is not recreated. Conditions that
    are true come last.

    Parameters
    ----------
    train_job
        The TrainJob as stored.
    job_set
        Its JobSet; None: no JobSet.
    now
        Time of new transitions.
    missing
        Whether the absence of the recorded JobSet is confirmed.
    blocked
        Reason and message why the JobSet cannot be created; None: unknown, or nothing prevents it.
    """
    status = dict(train_job.get("status") or {})
    conditions = [dict(entry) for entry in status.get("conditions") or ()]
    spec = train_job.get("spec") or {}
    already_finished = finished(train_job)
    if spec.get("suspend"):
        _set(conditions, SUSPENDED, "True", SUSPENDED_REASON, SUSPENDED_MESSAGE, timestamp(now))
    elif condition(train_job, SUSPENDED, "True"):
        _set(conditions, SUSPENDED, "False", RESUMED_REASON, RESUMED_MESSAGE, timestamp(now))
    if blocked is not None and job_set is None and not already_finished:
        _set(conditions, BLOCKED, "True", *blocked, timestamp(now))
    elif job_set is not None or already_finished:
        # The SDK reports a job as Running only while it has no conditions.
        conditions = [entry for entry in conditions if entry.get("type") != BLOCKED]
    if job_set is not None and already_finished:
        if is_recorded(train_job, job_set) and (jobs := _jobs_status(job_set)):
            status["jobsStatus"] = jobs
    elif job_set is not None:
        _copy_terminal(conditions, job_set, now)
        if jobs := _jobs_status(job_set):
            status["jobsStatus"] = jobs
        record = status.get("jobSet") or {}
        obsolete = record.get("remake") and (ended(job_set) or not (job_set.get("spec") or {}).get("suspend"))
        if record.get("uid") != job_set["metadata"]["uid"] or obsolete:
            resumed = {"resumed": record["resumed"]} if record.get("resumed") else {}
            status["jobSet"] = {"uid": job_set["metadata"]["uid"], **resumed}
        if _has_pods(job_set):
            conditions = _without_resume(conditions, status, train_job)
    conditions.sort(key=lambda entry: entry["type"] in _ENDS and entry["status"] == "True")
    if conditions or status.get("conditions"):
        status["conditions"] = conditions or None
    if already_finished or finished({"status": status}):
        return status
    group, kind, _ = runtime_reference(train_job)
    unsupported = group != GROUP or kind not in _RUNTIME_KINDS
    if unsupported and not (status.get("jobSet") or status.get("jobsStatus")):
        return _failed(status, RUNTIME_NOT_SUPPORTED_REASON, f"unsupported runtime: {kind}.{group}", now)
    if missing:
        return _failed(status, JOB_SET_MISSING_REASON, JOB_SET_MISSING_MESSAGE, now)
    due = deadline(train_job, status)
    if due is not None and now >= due:
        return _failed(status, DEADLINE_EXCEEDED_REASON, DEADLINE_EXCEEDED_MESSAGE, now)
    return status


def runtime_reference(train_job: Body) -> tuple[str, str, str]:
    """Return API group, kind and name of the runtime that a TrainJob references, with the API's defaults."""
    reference = (train_job.get("spec") or {}).get("runtimeRef") or {}
    group = reference.get("apiGroup")
    return (
        GROUP if group is None else group,
        reference.get("kind") or CLUSTER_TRAINING_RUNTIME,
        reference.get("name") or "",
    )


def awaits_job_set(train_job: Body) -> bool:
    """Return whether a JobSet was created for the TrainJob and must not be created again.

    The uid of the JobSet is recorded. Pod counts copied from the JobSet replace the record if the CRD lacks
    status.jobSet (upstream's CRD) and for jobs of other controllers.
    """
    status = train_job.get("status") or {}
    record = status.get("jobSet") or {}
    if record.get("uid"):
        return not record.get("remake")
    return bool(status.get("jobsStatus"))


def is_recorded(train_job: Body, job_set: Body) -> bool:
    """Return whether a JobSet is recorded in the TrainJob's status."""
    record = (train_job.get("status") or {}).get("jobSet") or {}
    return bool(record.get("uid") == job_set["metadata"]["uid"])


def recorded_uid(train_job: Body) -> str | None:
    """Return the uid of the recorded JobSet, or None if none is recorded, or it is being recreated."""
    record = (train_job.get("status") or {}).get("jobSet") or {}
    return None if record.get("remake") or not record.get("uid") else str(record["uid"])


def pending_recreation(train_job: Body) -> str | None:
    """Return the uid of the JobSet that is being recreated, or None."""
    record = (train_job.get("status") or {}).get("jobSet") or {}
    return str(record.get("uid")) if record.get("remake") else None


def recreation_reason(train_job: Body) -> str:
    """Return why the JobSet is recreated; empty: it is not."""
    return str(((train_job.get("status") or {}).get("jobSet") or {}).get("remake") or "")


def with_recreation(status: Body, uid: str, reason: str) -> dict[str, Any]:
    """Return a status that records the recreation of a JobSet."""
    resumed = {name: value for name, value in (status.get("jobSet") or {}).items() if name == "resumed"}
    return {**status, "jobSet": {**resumed, "uid": uid, "remake": reason}}


def status_patch(stored: Body, desired: Body) -> dict[str, Any]:
    """Return the merge patch between two statuses; empty if they are equal; fields of other writers are ignored."""
    patch: dict[str, Any] = {}
    for name, value in desired.items():
        before = stored.get(name)
        if value == before:
            continue
        if isinstance(value, dict) and isinstance(before, dict):
            value = {**{key: None for key in before if key not in value}, **value}
        patch[name] = value
    return patch


def finished(train_job: Body) -> bool:
    """Return whether the TrainJob is Complete or Failed; this is final."""
    return bool(condition(train_job, COMPLETE, "True") or condition(train_job, FAILED, "True"))


def deadline_exceeded(train_job: Body) -> bool:
    """Return whether the TrainJob failed by its deadline, so that its JobSet has to be deleted."""
    failed = condition(train_job, FAILED, "True")
    return failed is not None and failed.get("reason") == DEADLINE_EXCEEDED_REASON


def condition(body: Body, kind: str, status: str | None = None) -> Body | None:
    """Return the condition with a type and, if given, a status."""
    for entry in (body.get("status") or {}).get("conditions") or ():
        if entry.get("type") == kind and status in (None, entry.get("status")):
            found: Body = entry
            return found
    return None


def deadline(train_job: Body, status: Body) -> datetime.datetime | None:
    """Return the deadline of a running TrainJob; None if it has no limit, is suspended or finished.

    The time starts at the creation or, for a job that was suspended, at its last resume. A deadline beyond the year
    9999 is ignored.

    Parameters
    ----------
    train_job
        The TrainJob as stored.
    status
        Its desired status.
    """
    spec = train_job.get("spec") or {}
    seconds = spec.get("activeDeadlineSeconds")
    view = {"status": status}
    if seconds is None or spec.get("suspend") or finished(view):
        return None
    resumed = condition(view, SUSPENDED, "False")
    recorded = (status.get("jobSet") or {}).get("resumed")
    created = train_job["metadata"].get("creationTimestamp")
    start = resumed["lastTransitionTime"] if resumed else recorded or created
    try:
        return None if start is None else _parsed(start) + datetime.timedelta(seconds=int(seconds))
    except OverflowError:
        return None


def timestamp(now: datetime.datetime) -> str:
    """Format a time as the Kubernetes API does."""
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


def _has_pods(job_set: Body) -> bool:
    """Return whether a JobSet that is not suspended has pods."""
    counts = (job_set.get("status") or {}).get("replicatedJobsStatus") or ()
    if (job_set.get("spec") or {}).get("suspend"):
        return False
    return any(entry.get("active") or entry.get("ready") for entry in counts)


def _without_resume(conditions: list[dict[str, Any]], status: dict[str, Any], train_job: Body) -> list[dict[str, Any]]:
    """Return the conditions without a Suspended that is false; its time is recorded in the status first.

    A job with a deadline keeps the condition until the record is stored, which the CRD of another version may drop.
    """
    resumed = next((entry for entry in conditions if (entry["type"], entry["status"]) == (SUSPENDED, "False")), None)
    if resumed is None:
        return conditions
    when = resumed.get("lastTransitionTime")
    status["jobSet"] = {**(status.get("jobSet") or {}), "resumed": when}
    stored = ((train_job.get("status") or {}).get("jobSet") or {}).get("resumed")
    limited = (train_job.get("spec") or {}).get("activeDeadlineSeconds") is not None
    return conditions if limited and stored != when else [entry for entry in conditions if entry is not resumed]


def ended(job_set: Body) -> bool:
    """Return whether a JobSet completed or failed."""
    return any(condition(job_set, kind, "True") for kind in _TERMINAL)


def _jobs_status(job_set: Body) -> list[dict[str, Any]]:
    observed = (job_set.get("status") or {}).get("replicatedJobsStatus") or ()
    jobs = [{"name": entry["name"], **{count: int(entry.get(count) or 0) for count in _COUNTS}} for entry in observed]
    return jobs[:MOST_JOBS]


def _failed(status: Body, reason: str, message: str, now: datetime.datetime) -> dict[str, Any]:
    conditions = [dict(entry) for entry in status.get("conditions") or () if entry.get("type") != BLOCKED]
    _set(conditions, FAILED, "True", reason, message, timestamp(now))
    return {**status, "conditions": conditions}


def _set(conditions: list[dict[str, Any]], kind: str, status: str, reason: str, message: str, when: str) -> None:
    """Set a condition in place or append it; lastTransitionTime changes only with its status."""
    message = printable(message)
    for entry in conditions:
        if entry["type"] == kind:
            if entry["status"] != status:
                entry["lastTransitionTime"] = when
            entry |= {"status": status, "reason": reason, "message": message}
            return
    conditions.append(
        {"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": when}
    )
