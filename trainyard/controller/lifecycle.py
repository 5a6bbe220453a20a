"""TrainJob lifecycle: decide the next step purely from the observed state; no clock, no I/O, no history.

Three properties hold by the order of the cases below:

- Stopping needs nothing but the stored JobSet: `Suspend` comes before everything that renders.
- What ended never starts again: once the end is recorded on the TrainJob only `Finish` is left, and a JobSet that was
  recorded and is gone ends the TrainJob (`JobSetMissing`) instead of being created a second time.
- A JobSet is deleted to be made again only after that was recorded (`Remake`).
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from trainyard.api import Runtime, TrainJob
from trainyard.api.constants import MANAGED_BY_TRAINER, RESOURCES_CREATION_FAILED
from trainyard.controller import job_sets
from trainyard.controller import status as statuses
from trainyard.controller.ownership import TRAIN_JOB_LABEL
from trainyard.kube import Object, Resource, uid_of
from trainyard.problem import Problem
from trainyard.render import Rejected, RenderContext, render

__all__ = [
    "Action",
    "Build",
    "Create",
    "Finish",
    "Inputs",
    "Nothing",
    "Observed",
    "Remake",
    "Report",
    "Resume",
    "Suspend",
    "TakeOver",
    "build_of",
    "decide",
    "needs_confirmation",
    "reconciled",
]

_FROZEN_CHANGED: Final = "the rendered JobSet differs in fields that JobSet does not change"


class Build(StrEnum):
    """What a TrainJob has to be rendered for."""

    CREATE = "Create"
    RESUME = "Resume"
    RESTORE = "Restore"


@dataclass(frozen=True)
class Inputs:
    """What rendering needs beside the cache, or why it is not available.

    Parameters
    ----------
    train_job
        The TrainJob as a model; None where it does not fit its schema.
    runtime
        The runtime to render with.
    from_snapshot
        Whether the runtime comes from the TrainJob's snapshot.
    context
        What the cluster adds.
    problems
        Why there is no runtime.
    job_set
        For a resume: the whole stored JobSet.
    """

    train_job: TrainJob | None = None
    runtime: Runtime | None = None
    from_snapshot: bool = False
    context: RenderContext = field(default_factory=RenderContext)
    problems: tuple[Problem, ...] = ()
    job_set: Object | None = None


@dataclass(frozen=True)
class Observed:
    """One TrainJob and what is known of its objects.

    Parameters
    ----------
    train_job
        The TrainJob as stored.
    now
        The time (UTC).
    job_set
        Its JobSet as `job_sets.summary` keeps it; None where the cache has none that belongs to it.
    confirmed_absent
        Whether a read past the cache found no such JobSet either.
    pod_groups
        PodGroups that belong to it, with their resources.
    inputs
        What rendering needs; None where it was not asked for or could not be read.
    records
        Whether the API server keeps the record of the JobSet: without it a JobSet is never deleted to be made again.
    created
        uid of the JobSet that this process created and has not recorded yet.
    """

    train_job: Object
    now: datetime.datetime
    job_set: Object | None = None
    confirmed_absent: bool = False
    pod_groups: tuple[tuple[Resource, Object], ...] = ()
    inputs: Inputs | None = None
    records: bool = True
    created: str | None = None

    @property
    def awaits_job_set(self) -> bool:
        """Return whether a JobSet was created and is not to be created again."""
        return self.created is not None or statuses.awaits_job_set(self.train_job)

    @property
    def suspended(self) -> bool:
        """Return whether the TrainJob is to be held back."""
        return bool((self.train_job.get("spec") or {}).get("suspend"))

    @property
    def wanted_status(self) -> dict[str, Any]:
        """Return the status that the TrainJob should have."""
        missing = self.confirmed_absent and self.awaits_job_set
        return statuses.status_of(self.train_job, self.job_set, now=self.now, missing=missing)


@dataclass(frozen=True)
class Nothing:
    """There is nothing to do."""


@dataclass(frozen=True)
class Suspend:
    """Stop the JobSet by one patch."""

    job_set: Object
    patch: Object


@dataclass(frozen=True)
class TakeOver:
    """Make the JobSet of another controller, or of an earlier version, one of ours."""

    job_set: Object
    patch: Object


@dataclass(frozen=True)
class Create:
    """Create the objects that are missing.

    Parameters
    ----------
    objects
        The rendered objects, in the order in which they are created.
    inputs
        What they were rendered from.
    restore
        Whether the JobSet runs and only its gang was lost.
    """

    objects: tuple[Object, ...]
    inputs: Inputs
    restore: bool = False


@dataclass(frozen=True)
class Resume:
    """Start a suspended JobSet.

    Parameters
    ----------
    objects, inputs
        As for `Create`.
    job_set
        The stored JobSet.
    patch
        What to change in it.
    unchanged
        What the rendering would change and JobSet does not: the JobSet resumes as it is; empty where nothing is lost.
    """

    objects: tuple[Object, ...]
    inputs: Inputs
    job_set: Object
    patch: Object
    unchanged: str = ""


@dataclass(frozen=True)
class Remake:
    """Record why, then delete the suspended JobSet; a later step creates it again."""

    job_set: Object
    reason: str


@dataclass(frozen=True)
class Finish:
    """Clean up after a TrainJob whose end is recorded.

    Parameters
    ----------
    delete
        Objects to delete, with their resources.
    patch
        What lets JobSet delete the JobSet after its time to live.
    """

    job_set: Object | None
    delete: tuple[tuple[Resource, Object], ...] = ()
    patch: Object | None = None
    delete_job_set: bool = False


@dataclass(frozen=True)
class Report:
    """Tell the user why nothing is created; it is tried again within a minute.

    Parameters
    ----------
    problems
        What is wrong.
    reason
        Reason of the event.
    """

    problems: tuple[Problem, ...]
    reason: str = RESOURCES_CREATION_FAILED


Action = Nothing | Suspend | TakeOver | Create | Resume | Remake | Finish | Report


def needs_confirmation(observed: Observed) -> bool:
    """Return whether it matters that the JobSet is really gone, and not only from the cache."""
    job = observed.train_job
    return (
        reconciled(job)
        and not statuses.finished(job)
        and observed.job_set is None
        and observed.awaits_job_set
        and not observed.confirmed_absent
    )


def build_of(observed: Observed) -> Build | None:
    """Return what the TrainJob has to be rendered for, None where it need not be rendered."""
    job, job_set = observed.train_job, observed.job_set
    if not reconciled(job) or statuses.finished(job) or statuses.finished({"status": observed.wanted_status}):
        return None
    if job_set is None:
        return None if observed.awaits_job_set else Build.CREATE
    if job_set["metadata"].get("deletionTimestamp") or statuses.remake_of(job) == uid_of(job_set):
        return None
    if observed.suspended or _take_over(job_set, job) is not None:
        return None
    if job_set["spec"]["suspend"]:
        return Build.RESUME
    return Build.RESTORE if job_set["spec"]["gang"] and not observed.pod_groups else None


def decide(observed: Observed) -> Action:
    """Return what to do next about a TrainJob.

    Parameters
    ----------
    observed
        What is known; with ``inputs`` where `build_of` asks for a rendering.
    """
    job, job_set = observed.train_job, observed.job_set
    if not reconciled(job):
        return Nothing()
    if statuses.finished(job):
        return _finish(observed)
    if job_set is not None and not job_set["metadata"].get("deletionTimestamp"):
        if observed.suspended and not job_set["spec"]["suspend"] and not statuses.ended(job_set):
            return Suspend(job_set, job_sets.suspend_patch(job_set))
        if (patch := _take_over(job_set, job)) is not None:
            return TakeOver(job_set, patch)
        if statuses.remake_of(job) == uid_of(job_set):
            return Remake(job_set, statuses.remake_reason(job))
    build = build_of(observed)
    if build is None or observed.inputs is None:
        return Nothing()
    return _built(observed, observed.inputs, build)


def _built(observed: Observed, inputs: Inputs, build: Build) -> Action:
    if inputs.problems or inputs.runtime is None or inputs.train_job is None:
        return Report(inputs.problems)
    context = inputs.context
    result = render(inputs.train_job, inputs.runtime, context)
    if isinstance(result, Rejected):
        return Report(result.errors)
    if build is not Build.RESUME:
        return Create(result.objects, inputs, restore=build is Build.RESTORE)
    stored = inputs.job_set
    rendered = next(body for body in result.objects if body["kind"] == "JobSet")
    if stored is None:
        return Nothing()
    same = job_sets.same_frozen(rendered, stored)
    active = job_sets.active_replicated_jobs(observed.job_set)
    if not same and not active and observed.records:
        return Remake(stored, _FROZEN_CHANGED)
    patch = job_sets.resume_patch(rendered, stored, observed.train_job, changes=same)
    why = f"{', '.join(active)} still has running pods" if active else "status.jobSet is not served here"
    unchanged = "" if same else f"{_FROZEN_CHANGED}, and {why}"
    return Resume(result.objects, inputs, stored, patch, unchanged)


def _finish(observed: Observed) -> Action:
    job, job_set = observed.train_job, observed.job_set
    going = tuple(entry for entry in observed.pod_groups if not entry[1]["metadata"].get("deletionTimestamp"))
    patch: Object | None = None
    delete = False
    if job_set is not None and not job_set["metadata"].get("deletionTimestamp"):
        delete = statuses.overdue(job)
        patch = None if delete else job_sets.finish_patch(job_set)
    if not going and patch is None and not delete:
        return Nothing()
    return Finish(job_set, going, patch, delete)


def _take_over(job_set: Object, job: Object) -> Object | None:
    """Return the patch a JobSet needs that this version of the controller did not create."""
    metadata = job_set["metadata"]
    labels = metadata.get("labels") or {}
    if labels.get(TRAIN_JOB_LABEL) and job_set["spec"].get("ttlSecondsAfterFinished") is None:
        return None
    return job_sets.take_over_patch(job_set, job)


def reconciled(job: Object) -> bool:
    """Return whether this controller is in charge of a TrainJob, and it is not going away."""
    managed_by = (job.get("spec") or {}).get("managedBy") or MANAGED_BY_TRAINER
    return managed_by == MANAGED_BY_TRAINER and not job["metadata"].get("deletionTimestamp")
