"""Run policy, shared by all kinds of the training operator."""

from __future__ import annotations

from typing import Final

from trainyard.api.constants import MANAGED_BY_TRAINER, MULTIKUEUE
from trainyard.jobs.convert.draft import Draft
from trainyard.jobs.convert.field_finding import Fidelity, FieldFinding
from trainyard.jobs.convert.gang_scheduling import read_schedulers, read_scheduling_policy
from trainyard.jobs.convert.part import Part
from trainyard.jobs.convert.restarts import NEVER
from trainyard.jobs.convert.source import Path

_OLD_MANAGERS: Final = ("kubeflow.org/training-operator", "kubeflow.org/mpi-operator", "ray.io/kuberay-operator")


def read_run_policy(draft: Draft, path: str = "spec.runPolicy") -> None:
    """Read the run policy; requires the parts and their restart policies."""
    source = draft.source
    read_suspend(draft, f"{path}.suspend")
    read_deadline(draft, f"{path}.activeDeadlineSeconds")
    read_lifetime(draft, f"{path}.ttlSecondsAfterFinished")
    read_managed_by(draft, f"{path}.managedBy")
    read_clean_pod_policy(draft, f"{path}.cleanPodPolicy")
    limit = source.integer(f"{path}.backoffLimit")
    if limit is not None:
        retried = [part for part in draft.parts if part.job.get("backoffLimit") == limit]
        if all(part.pod.get("restartPolicy") == NEVER and "podFailurePolicy" not in part.job for part in draft.parts):
            source.changed(f"{path}.backoffLimit", "has no effect: the pods are never restarted")
        elif len(retried) > 1:
            source.changed(f"{path}.backoffLimit", "backoffLimit of each Job: counted by role")
        else:
            source.same(f"{path}.backoffLimit", "backoffLimit of the Job")
    read_schedulers(draft)
    read_scheduling_policy(draft, f"{path}.schedulingPolicy")


def read_suspend(draft: Draft, path: Path) -> None:
    """Read whether the job is suspended."""
    draft.suspend = draft.source.flag(path)
    draft.source.same(path, "TrainJob spec.suspend")


def read_deadline(draft: Draft, path: Path) -> None:
    """Read the active deadline."""
    draft.deadline = draft.source.integer(path, 1)
    draft.source.same(path, "TrainJob spec.activeDeadlineSeconds")


def read_lifetime(draft: Draft, path: Path) -> None:
    """Read the time to live after completion."""
    seconds = draft.source.integer(path)
    if seconds is not None:
        draft.job_set["ttlSecondsAfterFinished"] = seconds
        message = "ttlSecondsAfterFinished of the JobSet: the pods go, the TrainJob stays"
        draft.source.changed(path, message, "delete finished TrainJobs yourself")


def read_managed_by(draft: Draft, path: Path) -> None:
    """Read the managing controller."""
    manager = draft.source.text(path)
    if manager is None:
        return
    if manager in _OLD_MANAGERS:
        draft.source.changed(path, f"{MANAGED_BY_TRAINER} is in charge")
    elif manager == MULTIKUEUE:
        draft.managed_by = manager
        draft.source.same(path, "TrainJob spec.managedBy")
    else:
        draft.source.lost(path, "a TrainJob cannot be managed by it", f"use {MULTIKUEUE}, or nothing")


def succeed_with_role(draft: Draft, part: Part) -> None:
    """Complete the job with the pods of one role, and note that pods of the others are then stopped."""
    draft.succeed_with(part.name)
    cleaned = draft.source.peek("spec.runPolicy.cleanPodPolicy") in ("Running", "All")
    fidelity = Fidelity.LOSSLESS if cleaned else Fidelity.CHANGED
    message = "successPolicy of the JobSet: when these pods have succeeded, others that still run are deleted"
    draft.source.notes.append(FieldFinding.of(part.role, part.name, fidelity, message))


def read_clean_pod_policy(draft: Draft, path: Path) -> None:
    """Read the clean-up policy of pods."""
    policy = draft.source.text(path)
    if policy in (None, "Running"):
        draft.source.same(path, "what a JobSet does: pods that still run are deleted")
    elif policy == "None":
        fix = "let the other pods end by themselves if their logs are needed"
        draft.source.changed(path, "pods that still run when the job ends are deleted", fix)
    elif policy == "All":
        fix = "delete the TrainJob, or set ttlSecondsAfterFinished in the runtime's template"
        draft.source.changed(path, "finished pods stay until the TrainJob is deleted", fix)
    else:
        raise draft.source.malformed(path, f"must be None, Running or All, but is {policy!r}")
