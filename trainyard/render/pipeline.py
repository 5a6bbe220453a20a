"""Rendering and admission: validate, then build the objects, or return the findings."""

from __future__ import annotations

from collections.abc import Iterator

from trainyard.api import Body, Runtime, TrainJob, TrainJobSpec
from trainyard.api.constants import GROUP, MANAGED_BY_TRAINER
from trainyard.checks.finding import Finding
from trainyard.render.immutability import check_changes, equal_except_suspend, immutable_changes, leaves_objects
from trainyard.render.initializers import apply_initializers
from trainyard.render.jobset import job_set, place_in_queue, set_counts
from trainyard.render.result import Rejected, RenderContext, Rendered, Verdict
from trainyard.render.runtime_snapshot import snapshot
from trainyard.render.trainer import apply_trainer
from trainyard.render.trainer_status import apply_trainer_status, trainer_status_objects
from trainyard.render.validation import SPEC_MISSING, draft_of, framework_of, gang_schedulers_of
from trainyard.render.working_state import Plan

__all__ = ["admit", "render", "validate"]

_KINDS = ("TrainingRuntime", "ClusterTrainingRuntime")


def render(train_job: TrainJob, runtime: Runtime, context: RenderContext) -> Rendered | Rejected:
    """Return the objects of a TrainJob: runtime snapshot (ConfigMap), objects of framework and gang, JobSet.

    Pure and total: deterministic, without side effects, and without exceptions for any TrainJob and runtime. A TrainJob
    that is managed by another controller has no objects. The caller may modify the result.

    Parameters
    ----------
    train_job
        The TrainJob; owner references are set if it has a uid.
    runtime
        The referenced runtime, as stored or from the snapshot.
    context
        Facts about the cluster.
    """
    if train_job.spec and train_job.spec.managed_by != MANAGED_BY_TRAINER:
        return Rendered(())
    draft = draft_of(train_job, runtime, context)
    if draft.plan is None:
        return Rejected(draft.errors, draft.warnings)
    return Rendered(_objects(draft.plan), draft.warnings)


def validate(
    train_job: TrainJob, runtime: Runtime | None, context: RenderContext, *, old: TrainJob | None = None
) -> Verdict:
    """Return the verdict of admission for a TrainJob.

    Everything that :func:`render` rejects is an error, except for an update that requires no rendering: it changes only
    metadata, or suspends the job.

    Parameters
    ----------
    train_job
        The TrainJob to be stored.
    runtime
        The referenced runtime; None: it does not exist.
    context
        Facts about the cluster.
    old
        The stored TrainJob, on an update.
    """
    if train_job.spec is None:
        return Verdict((SPEC_MISSING,))
    if old is not None and leaves_objects(train_job, old):
        return Verdict()
    if error := _runtime_error(train_job.spec, runtime):
        return Verdict((error,))
    assert runtime is not None  # noqa: S101
    draft = draft_of(train_job, runtime, context)
    if old is None:
        return Verdict(draft.errors, draft.warnings)
    changes = tuple(check_changes(train_job, old, context))
    immutable = (
        tuple(_immutable_changes(draft.plan, old, runtime, context)) if draft.plan is not None and not changes else ()
    )
    return Verdict((*changes, *draft.errors), (*draft.warnings, *immutable))


def admit(
    train_job: TrainJob, runtime: Runtime | None, context: RenderContext, *, old: TrainJob | None = None
) -> tuple[Verdict, tuple[Body, ...]]:
    """Return the verdict of :func:`validate` and, if there are no errors, the objects of :func:`render`.

    On creation, both share one draft, which accounts for nearly all of their time.

    Parameters
    ----------
    train_job, runtime, context, old
        As in :func:`validate`.
    """
    managed = train_job.spec is not None and train_job.spec.managed_by == MANAGED_BY_TRAINER
    if old is None and runtime is not None and managed and train_job.spec:
        if error := _runtime_error(train_job.spec, runtime):
            return Verdict((error,)), ()
        draft = draft_of(train_job, runtime, context)
        return Verdict(draft.errors, draft.warnings), _objects(draft.plan) if draft.plan is not None else ()
    verdict = validate(train_job, runtime, context, old=old)
    if verdict.errors or runtime is None:
        return verdict, ()
    result = render(train_job, runtime, context)
    if isinstance(result, Rendered):
        return verdict, result.objects
    return Verdict(result.errors, verdict.warnings), ()


def _runtime_error(spec: TrainJobSpec, runtime: Runtime | None) -> Finding | None:
    """Return the error if the runtime is missing or of an unsupported kind."""
    reference = spec.runtime_ref
    if reference.api_group != GROUP or reference.kind not in _KINDS:
        kind = ".".join(part for part in (reference.kind, reference.api_group) if part)
        return Finding("spec.runtimeRef", f"unsupported runtime: {kind}", f"use kind {' or '.join(_KINDS)} of {GROUP}")
    return _missing_runtime(spec) if runtime is None else None


def _missing_runtime(spec: TrainJobSpec) -> Finding:
    kind, name = spec.runtime_ref.kind, spec.runtime_ref.name
    return Finding(
        "spec.runtimeRef",
        f'{kind} "{name}" not found: '
        f"specified {kind[0].lower()}{kind[1:]} must be created before the TrainJob is created",
        f"create {kind} {name}, or name one that exists (kubectl get {kind.lower()}s)",
    )


def _objects(plan: Plan) -> tuple[Body, ...]:
    """Apply framework, TrainJob (takes precedence), pod counts, gang and queue to the plan, and return its objects."""
    framework, schedulers = framework_of(plan.runtime), gang_schedulers_of(plan.runtime)
    framework.apply(plan)
    apply_trainer_status(plan)
    apply_trainer(plan)
    apply_initializers(plan)
    set_counts(plan)
    plan.freeze_pods()
    for scheduler in schedulers:
        scheduler.apply(plan)
    place_in_queue(plan)
    of_gang = (body for scheduler in schedulers for body in scheduler.objects(plan))
    return (snapshot(plan), *trainer_status_objects(plan), *framework.objects(plan), *of_gang, job_set(plan))


def _immutable_changes(plan: Plan, old: TrainJob, runtime: Runtime, context: RenderContext) -> Iterator[Finding]:
    """Yield changes of immutable fields of a JobSet that may already exist."""
    if old.spec is None or equal_except_suspend(plan.spec, old.spec):
        return
    before = draft_of(old, runtime, context).plan
    if before is None:
        return
    for draft in (plan, before):
        _objects(draft)
    yield from immutable_changes(plan.job_set_spec, before.job_set_spec)
