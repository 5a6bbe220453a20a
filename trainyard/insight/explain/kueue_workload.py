"""Reason for which Kueue keeps a job suspended, from its Workload, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from trainyard.cluster_state.body_fields import Body, condition, mapping, name_of, sequence, text
from trainyard.cluster_state.observed import Kind
from trainyard.insight.explain.job_state import JobState
from trainyard.insight.explain.named_objects import short_kind

_MAXIMUM: Final = 300
_INADMISSIBLE: Final = "Inadmissible"
"""Reason of a Workload whose queue is missing or stopped: no quota of it becomes free."""


@dataclass(frozen=True)
class KueueWait:
    """Why Kueue keeps a job suspended.

    Parameters
    ----------
    workload
        Name of the Workload, or of the job while it has none.
    reason
        What it waits for.
    remedy
        What to do.
    admitted
        Whether Kueue has admitted it.
    """

    workload: str
    reason: str
    remedy: str
    admitted: bool = False


def waits_for(job_state: JobState, queue: str) -> KueueWait:
    """Return why Kueue keeps a job of a LocalQueue suspended.

    Parameters
    ----------
    queue
        Name of the LocalQueue.
    """
    workload, namespace = _workload(job_state), job_state.namespace or "default"
    name = name_of(workload) if workload is not None else job_state.name
    wait = f"wait until quota of {queue} is free; see `kubectl describe workload {name} -n {namespace}`"
    if workload is None:
        missing = "it has no Workload yet" if job_state.reads(Kind.WORKLOAD) else "its Workload may not be read"
        return KueueWait(name, missing, wait)
    if condition(workload, "Admitted") is not None:
        # Kueue resumes what it has admitted, whoever has suspended it.
        patch = "kubectl patch {kind} {name} -n {namespace}".format_map(patched_object(job_state))
        return KueueWait(
            name,
            "its update is rejected, or Kueue does not run",
            f"see what the API server says: `{patch} --type merge --dry-run=server "
            '-p \'{"spec":{"suspend":false}}\'`; if it accepts that, ask the platform team to look at Kueue',
            admitted=True,
        )
    if mapping(workload, "spec").get("active") is False:
        return KueueWait(
            name,
            _said(workload, "Evicted") or "its Workload is deactivated",
            "correct what kept its pods from running; then delete the job and create it again, "
            f"or ask the platform team to activate Workload {name}",
        )
    if again := text(workload, "status", "requeueState", "requeueAt"):
        reason = _said(workload, "Evicted", "QuotaReserved") or "it was evicted"
        again = f"{reason}; it is queued again at {again}"
        return KueueWait(name, again, f"correct what kept its pods from running, or {wait}")
    if condition(workload, "QuotaReserved", "True") is not None:
        checks = [
            f"{text(each, 'name')} is {text(each, 'state') or 'Pending'}: {text(each, 'message')}".rstrip(": ")
            for each in sequence(workload, "status", "admissionChecks")
            if text(each, "state") != "Ready"
        ]
        reason = "its quota is reserved, and admission check " + ("; ".join(checks) or "results are missing")
        remedy = "wait for the admission check, or ask the platform team to look at it"
        return KueueWait(name, reason[:_MAXIMUM], remedy)
    if text(condition(workload, "QuotaReserved", "False"), "reason") == _INADMISSIBLE:
        wait = f"use a queue of `kubectl get localqueues -n {namespace}`, or ask the platform team to look at {queue}"
    return KueueWait(name, _said(workload, "QuotaReserved", "Admitted") or "its Workload waits", wait)


def patched_object(job_state: JobState) -> dict[str, str]:
    """Return kind, name and namespace of a job as ``kubectl patch`` takes them."""
    kind = short_kind(job_state.kind).lower().replace("volcano job", "vcjob")
    return {"kind": kind, "name": job_state.name, "namespace": job_state.namespace or "default"}


def _workload(job_state: JobState) -> Body | None:
    owners = (body for body in (job_state.root, job_state.job_set, *job_state.pods) if body is not None)
    return next((each for body in owners for each in job_state.index.children(body, Kind.WORKLOAD)), None)


def _said(workload: Body, *kinds: str) -> str:
    for kind in kinds:
        status = "True" if kind == "Evicted" else "False"
        if message := text(condition(workload, kind, status), "message"):
            return message[:_MAXIMUM]
    return ""
