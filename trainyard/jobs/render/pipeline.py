"""Rendering and admission in stages that go one way: resolve, validate, build.

Each stage reads the result of the one before and does not modify it:

- resolve: TrainJob, runtime and patches become one immutable `ResolvedJob`,
- validate: the resolved job has findings, or none,
- build: the objects of a resolved job without errors.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from trainyard.api import Body, Runtime, TrainJob, TrainJobSpec
from trainyard.api.constants import GROUP, MANAGED_BY_TRAINER
from trainyard.checks.finding import Finding, Severity
from trainyard.jobs.render.immutability import (
    check_changes,
    equal_except_suspend,
    immutable_changes,
    leaves_objects,
    waits_in_queue,
)
from trainyard.jobs.render.initializers import apply_initializers
from trainyard.jobs.render.job_set_builder import JobSetBuilder
from trainyard.jobs.render.overrides import pod_spec_overrides, pod_template_overrides
from trainyard.jobs.render.patches import runtime_patches
from trainyard.jobs.render.relabeling import relabeling_warnings, trainers
from trainyard.jobs.render.resolution import Resolution
from trainyard.jobs.render.resolved_job import ResolvedJob
from trainyard.jobs.render.result import AdmissionDecision, Rejected, RenderContext, Rendered
from trainyard.jobs.render.runtime_snapshot import snapshot
from trainyard.jobs.render.trainer import apply_trainer
from trainyard.jobs.render.trainer_status import apply_trainer_status, trainer_status_objects
from trainyard.jobs.render.validation import (
    framework_of,
    gang_schedulers_of,
    input_errors,
    input_warnings,
    job_findings,
    step_findings,
)

_KINDS = ("TrainingRuntime", "ClusterTrainingRuntime")
_SPEC_MISSING = Finding("spec.runtimeRef", "Field required", "name a runtime")


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
    validated = _resolve(train_job, runtime, context)
    if validated.job is None:
        return Rejected(validated.errors, validated.warnings)
    return Rendered(_build(validated.job), validated.warnings)


def validate(
    train_job: TrainJob, runtime: Runtime | None, context: RenderContext, *, old: TrainJob | None = None
) -> AdmissionDecision:
    """Return the decision of admission for a TrainJob.

    Everything that :func:`render` rejects is an error, except for an update that requires no rendering: it changes only
    metadata, or suspends the job. A suspended job of Kueue may keep the errors that it has.

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
        return AdmissionDecision((_SPEC_MISSING,))
    if old is not None and leaves_objects(train_job, old):
        return AdmissionDecision()
    if error := _runtime_error(train_job.spec, runtime):
        return AdmissionDecision((error,))
    assert runtime is not None  # noqa: S101
    validated = _resolve(train_job, runtime, context)
    if old is None:
        return AdmissionDecision(validated.errors, validated.warnings)
    changes = tuple(check_changes(train_job, old, context))
    immutable = tuple(_immutable_changes(validated.job, old)) if validated.job is not None and not changes else ()
    errors = validated.errors
    if errors and waits_in_queue(train_job, old):
        known = _resolve(old, runtime, context).errors
        errors = tuple(error for error in errors if error not in known)
    return AdmissionDecision((*changes, *errors), (*validated.warnings, *immutable))


def admit(
    train_job: TrainJob, runtime: Runtime | None, context: RenderContext, *, old: TrainJob | None = None
) -> tuple[AdmissionDecision, tuple[Body, ...]]:
    """Return the decision of :func:`validate` and, if there are no errors, the objects of :func:`render`.

    On creation, both share one resolved job, which accounts for most of their time.

    Parameters
    ----------
    train_job, runtime, context, old
        As in :func:`validate`.
    """
    managed = train_job.spec is not None and train_job.spec.managed_by == MANAGED_BY_TRAINER
    if old is None and runtime is not None and managed and train_job.spec:
        if error := _runtime_error(train_job.spec, runtime):
            return AdmissionDecision((error,)), ()
        validated = _resolve(train_job, runtime, context)
        objects = _build(validated.job) if validated.job is not None else ()
        return AdmissionDecision(validated.errors, validated.warnings), objects
    decision = validate(train_job, runtime, context, old=old)
    if decision.errors or runtime is None:
        return decision, ()
    result = render(train_job, runtime, context)
    if isinstance(result, Rendered):
        return decision, result.objects
    if old is not None and waits_in_queue(train_job, old):
        return decision, ()
    return AdmissionDecision(result.errors, decision.warnings), ()


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


@dataclass(frozen=True)
class _Validated:
    """A resolved and validated job.

    Parameters
    ----------
    job
        The resolved job; None: there are errors.
    errors, warnings
        Findings.
    """

    job: ResolvedJob | None
    errors: tuple[Finding, ...]
    warnings: tuple[Finding, ...]


def _resolve(train_job: TrainJob, runtime: Runtime, context: RenderContext) -> _Validated:
    """Resolve and validate; an invalid input is not resolved."""
    spec = train_job.spec
    if spec is None:
        return _Validated(None, (_SPEC_MISSING,), ())
    warnings = tuple(input_warnings(train_job, runtime))
    changes = (*pod_spec_overrides(spec), *pod_template_overrides(spec), *runtime_patches(spec))
    if errors := input_errors(spec, runtime, changes):
        return _Validated(None, errors, warnings)
    resolution = Resolution(train_job, spec, runtime, context, changes)
    steps = tuple(step_findings(resolution, changes))
    labeled = trainers(resolution)
    framework_of(runtime).resolve(resolution)
    job = resolution.resolved()
    findings = (*steps, *relabeling_warnings(job, labeled), *job_findings(job))
    if not findings:
        return _Validated(job, (), warnings)
    errors = _of_severity(findings, Severity.ERROR)
    return _Validated(None if errors else job, errors, (*warnings, *_of_severity(findings, Severity.WARNING)))


def _of_severity(findings: Iterable[Finding], severity: Severity) -> tuple[Finding, ...]:
    return tuple(finding for finding in findings if finding.severity is severity)


def _build(job: ResolvedJob) -> tuple[Body, ...]:
    """Return the objects: framework, TrainJob (takes precedence), pod counts, gang and queue modify the JobSet."""
    builder = JobSetBuilder(job)
    of_framework = tuple(framework_of(job.runtime).build(builder))
    apply_trainer_status(builder)
    apply_trainer(builder)
    apply_initializers(builder)
    builder.set_counts()
    of_gang = tuple(body for scheduler in gang_schedulers_of(job.runtime) for body in scheduler.build(builder))
    builder.place_in_queue()
    return (
        snapshot(builder.train_job, builder.runtime),
        *trainer_status_objects(builder),
        *of_framework,
        *of_gang,
        builder.job_set(),
    )


def _immutable_changes(job: ResolvedJob, old: TrainJob) -> Iterator[Finding]:
    """Yield changes of immutable fields of a JobSet that may already exist."""
    if old.spec is None or equal_except_suspend(job.spec, old.spec):
        return
    before = _resolve(old, job.runtime, job.context).job
    if before is not None:
        after_spec, before_spec = (_build(resolved)[-1]["spec"] for resolved in (job, before))
        yield from immutable_changes(after_spec, before_spec)
