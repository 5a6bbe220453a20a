"""TrainJob lifecycle: decide the next action as a pure function of the observed state; no clock, no I/O, no history.

The order of the cases guarantees three properties:

- Suspending requires only the stored JobSet: `Suspend` precedes all actions that render.
- A finished TrainJob never restarts: after its end is recorded in the status, only `Finish` is possible, which deletes
  a JobSet that has not ended. If a recorded JobSet is missing, the TrainJob fails (`JobSetMissing`) instead of creating
  it a second time. A create that the API server executes late may replace it: such a JobSet is not the recorded one.
- A JobSet is deleted to be recreated only after that is recorded in the status, and only in the state in which it was
  just read from the API server: suspended and not ended (`Recreate`). Its successor is created suspended and resumes
  after it is recorded: one that runs is never taken for one that is still to be created.
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from trainyard.api.constants import MANAGED_BY_TRAINER
from trainyard.checks.finding import Finding
from trainyard.controller import job_sets
from trainyard.controller import status as statuses
from trainyard.controller.actions import (
    Action,
    Adopt,
    Create,
    Finish,
    Inputs,
    Nothing,
    Recreate,
    ReportErrors,
    Resume,
    Suspend,
)
from trainyard.controller.job_ownership import TRAIN_JOB_LABEL
from trainyard.controller.removed_parts import lacks_parts
from trainyard.jobs.render.pipeline import render
from trainyard.jobs.render.result import Rejected
from trainyard.kube.resource import Object, Resource, uid_of

_IMMUTABLE_CHANGED: Final = "the rendered JobSet differs in immutable fields"
_PARTS_REMOVED: Final = "labels, node selectors, tolerations or gates were removed, which JobSet keeps on its Jobs"
_NOT_SUSPENDED_YET: Final = "it is recreated when JobSet's controller has suspended it (condition Suspended)"
_SUSPENDED: Final = "Suspended"
_FOREGROUND: Final = "foregroundDeletion"
"""Finalizer of a deletion that waits for the objects, which the garbage collector deletes."""
_ORPHAN: Final = "orphan"
"""Finalizer of a deletion that leaves the objects, which go on under another controller."""


class RenderPurpose(StrEnum):
    """Purpose of rendering a TrainJob."""

    CREATE = "Create"
    RESUME = "Resume"
    RESTORE = "Restore"


@dataclass(frozen=True)
class ObservedJob:
    """Observed state of one TrainJob and its objects.

    Parameters
    ----------
    train_job
        The TrainJob as stored.
    now
        Current time (UTC).
    job_set
        Summary (`job_sets.summary`) of the JobSet that it owns; None if it is not cached.
    stored
        The same JobSet, complete, just read from the API server; None if it was not read or not found.
    confirmed_absent
        Whether a read from the API server found no such JobSet either.
    pod_groups
        PodGroups that it owns, with their resources.
    inputs
        Inputs of rendering; None if not required.
    record_supported
        Whether the API server stores status.jobSet; without it, a JobSet is never deleted to be recreated.
    created
        uid of the JobSet that this process created and has not yet recorded in the status.
    blocked
        Reason and message why the JobSet could not be created in this pass.
    """

    train_job: Object
    now: datetime.datetime
    job_set: Object | None = None
    stored: Object | None = None
    confirmed_absent: bool = False
    pod_groups: tuple[tuple[Resource, Object], ...] = ()
    inputs: Inputs | None = None
    record_supported: bool = True
    created: str | None = None
    blocked: tuple[str, str] | None = None

    @property
    def awaits_job_set(self) -> bool:
        """Whether a JobSet was created and must not be created again."""
        return self.created is not None or statuses.awaits_job_set(self.train_job)

    @property
    def is_stale_create(self) -> bool:
        """Whether the JobSet is not the recorded one, which is gone: the API server executed an earlier create late.

        A JobSet without the digest is another controller's, which does create JobSets again.
        """
        expected = statuses.recorded_uid(self.train_job) or self.created
        if self.job_set is None or expected is None or expected == uid_of(self.job_set):
            return False
        return job_sets.FROZEN_DIGEST in (self.job_set["metadata"].get("annotations") or {})

    @property
    def suspended(self) -> bool:
        """Whether the TrainJob is suspended."""
        return bool((self.train_job.get("spec") or {}).get("suspend"))

    @property
    def desired_status(self) -> dict[str, Any]:
        """Desired status of the TrainJob."""
        if self.is_stale_create:
            return statuses.status_of(self.train_job, None, now=self.now, missing=self.stored is not None)
        missing = self.confirmed_absent and self.awaits_job_set
        blocked = None if missing else self.blocked
        return statuses.status_of(self.train_job, self.job_set, now=self.now, missing=missing, blocked=blocked)


def needs_confirmation(observed: ObservedJob) -> bool:
    """Return whether the absence of the JobSet has to be confirmed by a read from the API server."""
    job = observed.train_job
    return (
        is_managed(job)
        and not statuses.finished(job)
        and observed.job_set is None
        and observed.awaits_job_set
        and not observed.confirmed_absent
    )


def needs_stored_job_set(observed: ObservedJob) -> bool:
    """Return whether the JobSet has to be read before it is resumed or deleted: the cached one may be outdated."""
    if observed.stored is not None or not is_managed(observed.train_job):
        return False
    if statuses.finished(observed.train_job):
        return _is_active(observed) and not statuses.deadline_exceeded(observed.train_job)
    return observed.is_stale_create or _recreation_due(observed) or required_build(observed) is RenderPurpose.RESUME


def needs_search(observed: ObservedJob) -> bool:
    """Return whether a TrainJob that has finished may have objects without the label of the watch."""
    job_set = observed.job_set
    if not is_managed(observed.train_job) or not statuses.finished(observed.train_job):
        return False
    if job_set is None:
        return not (observed.confirmed_absent and observed.pod_groups)
    # A JobSet that another controller created does not tell whether a PodGroup was created for the job.
    adopted = job_sets.FROZEN_DIGEST not in (job_set["metadata"].get("annotations") or {})
    return (adopted or bool(job_set["spec"]["gang"])) and not observed.pod_groups


def required_build(observed: ObservedJob) -> RenderPurpose | None:
    """Return for what the TrainJob has to be rendered, or None."""
    job, job_set = observed.train_job, observed.job_set
    if not is_managed(job) or statuses.finished(job) or statuses.finished({"status": observed.desired_status}):
        return None
    if job_set is None:
        return None if observed.awaits_job_set else RenderPurpose.CREATE
    if job_set["metadata"].get("deletionTimestamp") or observed.is_stale_create or _recreation_due(observed):
        return None
    if observed.record_supported and statuses.pending_recreation(job) is not None:
        return None
    if observed.suspended or _adoption_patch(job_set, job) is not None:
        return None
    if job_set["spec"]["suspend"]:
        return RenderPurpose.RESUME
    return RenderPurpose.RESTORE if job_set["spec"]["gang"] and not observed.pod_groups else None


def decide(observed: ObservedJob) -> Action:
    """Return the next action for a TrainJob.

    Parameters
    ----------
    observed
        Observed state; with ``inputs`` if `required_build` returns a build.
    """
    job, job_set = observed.train_job, observed.job_set
    if not is_managed(job):
        return Suspend(job_set, job_sets.suspend_patch(job_set)) if job_set and _is_kept(observed) else Nothing()
    if statuses.finished(job):
        return _finish(observed)
    if job_set is not None and not job_set["metadata"].get("deletionTimestamp"):
        if observed.suspended and not job_set["spec"]["suspend"] and not statuses.ended(job_set):
            return Suspend(job_set, job_sets.suspend_patch(job_set))
        if observed.is_stale_create:
            return Nothing()  # Its TrainJob fails, then it is deleted.
        if (patch := _adoption_patch(job_set, job)) is not None:
            return Adopt(job_set, patch)
        if _recreation_due(observed):
            return Recreate(observed.stored, statuses.recreation_reason(job)) if observed.stored else Nothing()
    build = required_build(observed)
    if build is None or observed.inputs is None:
        return Nothing()
    return _render_action(observed, observed.inputs, build)


def _render_action(observed: ObservedJob, inputs: Inputs, build: RenderPurpose) -> Action:
    if inputs.findings or inputs.runtime is None or inputs.train_job is None:
        return ReportErrors(inputs.findings)
    context = inputs.context
    result = render(inputs.train_job, inputs.runtime, context)
    if isinstance(result, Rejected):
        return ReportErrors(result.errors)
    if build is not RenderPurpose.RESUME:
        objects = result.objects
        if build is RenderPurpose.CREATE and statuses.pending_recreation(observed.train_job) is not None:
            objects = tuple(job_sets.suspended(body) if body["kind"] == "JobSet" else body for body in objects)
        return Create(objects, inputs, restore=build is RenderPurpose.RESTORE)
    stored = observed.stored
    rendered = next(body for body in result.objects if body["kind"] == "JobSet")
    if stored is None:
        return Nothing()
    same = job_sets.same_immutable_fields(rendered, stored)
    changed = "" if same else _IMMUTABLE_CHANGED
    if same and lacks_parts(rendered, stored):
        changed = _PARTS_REMOVED
    active = job_sets.active_replicated_jobs(observed.job_set)
    if changed and not active and observed.record_supported:
        # Counts that are missing or old do not show that no pod runs.
        if statuses.condition(stored, _SUSPENDED, "True"):
            return Recreate(stored, changed)
        return ReportErrors((Finding("", f"{changed}; {_NOT_SUSPENDED_YET}", "check that JobSet's controller runs"),))
    patch = job_sets.resume_patch(rendered, stored, observed.train_job, changes=same)
    why = f"{', '.join(active)} still has running pods" if active else "the TrainJob CRD lacks status.jobSet"
    unchanged = f"{changed}, and {why}" if changed else ""
    return Resume(result.objects, inputs, stored, patch, unchanged)


def _recreation_due(observed: ObservedJob) -> bool:
    """Whether the recreation of the JobSet is recorded; a JobSet that runs or ended is not recreated."""
    job, job_set = observed.train_job, observed.job_set
    if job_set is None or job_set["metadata"].get("deletionTimestamp") or not is_managed(job):
        return False
    kept = statuses.finished(job) or statuses.ended(job_set) or not job_set["spec"]["suspend"]
    return not kept and statuses.pending_recreation(job) == uid_of(job_set)


def _finish(observed: ObservedJob) -> Action:
    job, job_set = observed.train_job, observed.job_set
    pod_groups = tuple(entry for entry in observed.pod_groups if not entry[1]["metadata"].get("deletionTimestamp"))
    patch: Object | None = None
    delete = False
    if job_set is not None and not job_set["metadata"].get("deletionTimestamp"):
        delete = statuses.deadline_exceeded(job) or (_is_active(observed) and observed.stored is not None)
        patch = job_sets.finish_patch(job_set) if not delete and statuses.ended(job_set) else None
    if not pod_groups and patch is None and not delete:
        return Nothing()
    return Finish(job_set, pod_groups, patch, delete)


def _is_active(observed: ObservedJob) -> bool:
    """Whether the TrainJob owns a JobSet that has not ended."""
    job_set = observed.job_set
    return job_set is not None and not (job_set["metadata"].get("deletionTimestamp") or statuses.ended(job_set))


def _is_kept(observed: ObservedJob) -> bool:
    """Whether a finalizer keeps a deleted TrainJob, so that nothing deletes its JobSet, which runs."""
    job, job_set = observed.train_job, observed.job_set
    finalizers = set(job["metadata"].get("finalizers") or ())
    if not job["metadata"].get("deletionTimestamp") or _managed_by(job) != MANAGED_BY_TRAINER:
        return False
    if _ORPHAN in finalizers or not finalizers - {_FOREGROUND}:
        return False
    return job_set is not None and _is_active(observed) and not job_set["spec"]["suspend"]


def _adoption_patch(job_set: Object, job: Object) -> Object | None:
    """Return the patch that adopts a JobSet; None if it is not required."""
    metadata = job_set["metadata"]
    labels = metadata.get("labels") or {}
    if labels.get(TRAIN_JOB_LABEL) and job_set["spec"].get("ttlSecondsAfterFinished") is None:
        return None
    return job_sets.adoption_patch(job_set, job)


def is_managed(job: Object) -> bool:
    """Return whether this controller manages a TrainJob and it is not being deleted."""
    return _managed_by(job) == MANAGED_BY_TRAINER and not job["metadata"].get("deletionTimestamp")


def _managed_by(job: Object) -> str:
    return str((job.get("spec") or {}).get("managedBy") or MANAGED_BY_TRAINER)
