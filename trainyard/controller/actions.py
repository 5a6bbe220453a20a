"""Actions on the objects of a TrainJob, and the inputs of those that render."""

from __future__ import annotations

from dataclasses import dataclass, field

from trainyard.api import Runtime, TrainJob
from trainyard.api.constants import RESOURCES_CREATION_FAILED
from trainyard.checks.finding import Finding
from trainyard.jobs.render.result import RenderContext
from trainyard.kube.resource import Object, Resource


@dataclass(frozen=True)
class Inputs:
    """Inputs of rendering, or the errors that prevent it.

    Parameters
    ----------
    train_job
        The parsed TrainJob; None if it does not match its schema.
    runtime
        The parsed runtime.
    from_snapshot
        Whether the runtime comes from the TrainJob's snapshot.
    context
        Render context of the cluster.
    findings
        Errors, if TrainJob or runtime is None.
    """

    train_job: TrainJob | None = None
    runtime: Runtime | None = None
    from_snapshot: bool = False
    context: RenderContext = field(default_factory=RenderContext)
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True)
class Nothing:
    """No action is required."""


@dataclass(frozen=True)
class Suspend:
    """Suspend the JobSet by one patch."""

    job_set: Object
    patch: Object


@dataclass(frozen=True)
class Adopt:
    """Adopt a JobSet that another controller or an earlier version created."""

    job_set: Object
    patch: Object


@dataclass(frozen=True)
class Create:
    """Create missing objects.

    Parameters
    ----------
    objects
        Rendered objects in order of creation.
    inputs
        Inputs of rendering.
    restore
        Whether the JobSet is running and only its PodGroup is missing.
    """

    objects: tuple[Object, ...]
    inputs: Inputs
    restore: bool = False


@dataclass(frozen=True)
class Resume:
    """Resume a suspended JobSet.

    Parameters
    ----------
    objects, inputs
        As for `Create`.
    job_set
        The stored JobSet.
    patch
        Merge patch of the JobSet.
    unchanged
        Why rendered changes cannot be applied and the JobSet resumes unchanged; empty if all changes are applied.
    """

    objects: tuple[Object, ...]
    inputs: Inputs
    job_set: Object
    patch: Object
    unchanged: str = ""


@dataclass(frozen=True)
class Recreate:
    """Record the reason, then delete the suspended JobSet; a later action creates it again.

    Parameters
    ----------
    job_set
        The stored JobSet; its resourceVersion is a precondition of the deletion.
    reason
        Why it is recreated.
    """

    job_set: Object
    reason: str


@dataclass(frozen=True)
class Finish:
    """Clean up after a finished TrainJob.

    Parameters
    ----------
    delete
        Objects to delete, with their resources.
    patch
        Merge patch that sets the JobSet's ttlSecondsAfterFinished.
    delete_job_set
        Whether to delete the JobSet: it has not ended, or its TrainJob has passed the deadline.
    """

    job_set: Object | None
    delete: tuple[tuple[Resource, Object], ...] = ()
    patch: Object | None = None
    delete_job_set: bool = False


@dataclass(frozen=True)
class ReportErrors:
    """Report errors that prevent the creation; retried within a minute.

    Parameters
    ----------
    findings
        Errors.
    reason
        Reason of the event.
    """

    findings: tuple[Finding, ...]
    reason: str = RESOURCES_CREATION_FAILED


Action = Nothing | Suspend | Adopt | Create | Resume | Recreate | Finish | ReportErrors
