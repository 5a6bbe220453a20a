"""From a TrainJob and its runtime to objects, or to every reason why not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from trainyard.api import Runtime, TrainJob, TrainJobSpec
from trainyard.api.constants import DEPRECATION_POLICY_URL, GROUP, MANAGED_BY_TRAINER
from trainyard.problem import Problem
from trainyard.render import frameworks, gangs
from trainyard.render.bodies import copied
from trainyard.render.jobset import job_set, place_in_queue, set_counts
from trainyard.render.names import check_names
from trainyard.render.overrides import apply_overrides, check_initializers, override_warnings
from trainyard.render.patches import check_changes, check_patches, patch_faults
from trainyard.render.plan import Plan, make_plan, template_of
from trainyard.render.result import Rejected, RenderContext, Rendered, Verdict
from trainyard.render.runtimes import deprecation, runtime_errors
from trainyard.render.shape import ENV, RESOURCES, faults
from trainyard.render.snapshot import snapshot

__all__ = ["render", "validate"]

_KINDS = ("TrainingRuntime", "ClusterTrainingRuntime")
_SPEC_MISSING = Problem("spec.runtimeRef", "Field required", "name a runtime")


@dataclass(frozen=True)
class _Draft:
    plan: Plan | None
    errors: tuple[Problem, ...]
    warnings: tuple[Problem, ...]


def render(train_job: TrainJob, runtime: Runtime, context: RenderContext) -> Rendered | Rejected:
    """Return the objects of a TrainJob: ConfigMap (runtime snapshot), PodGroup, JobSet.

    Pure and total: the same input gives the same answer, nothing is changed, and nothing is raised for any TrainJob and
    runtime. A job that another controller manages has no objects.

    Parameters
    ----------
    train_job
        The TrainJob; owner references are set when it has a uid.
    runtime
        The runtime it names, live or from its snapshot.
    context
        What the cluster adds.
    """
    if train_job.spec and train_job.spec.managed_by != MANAGED_BY_TRAINER:
        return Rendered(())
    draft = _draft(train_job, runtime, context)
    plan = draft.plan
    if plan is None or draft.errors:
        return Rejected(draft.errors, draft.warnings)
    framework = _framework(plan)
    gang = next((gangs.GANGS[name] for name in gangs.chosen(plan.pod_group_policy)), None)
    framework.apply(plan)
    apply_overrides(plan)
    set_counts(plan)
    if gang:
        gang.apply(plan)
    place_in_queue(plan)
    objects = (snapshot(plan), *framework.objects(plan), *(gang.objects(plan) if gang else ()), job_set(plan))
    return Rendered(objects, draft.warnings)


def validate(
    train_job: TrainJob, runtime: Runtime | None, context: RenderContext, *, old: TrainJob | None = None
) -> Verdict:
    """Return the answer of admission for a TrainJob.

    Whatever :func:`render` would reject is an error here too.

    Parameters
    ----------
    train_job
        The TrainJob as it would be stored.
    runtime
        The runtime it names; None when there is none.
    context
        What the cluster adds.
    old
        The stored TrainJob, on an update.
    """
    if train_job.spec is None:
        return Verdict((_SPEC_MISSING,))
    reference = train_job.spec.runtime_ref
    if reference.api_group != GROUP or reference.kind not in _KINDS:
        kind = ".".join(part for part in (reference.kind, reference.api_group) if part)
        return Verdict(
            (Problem("spec.runtimeRef", f"unsupported runtime: {kind}", f"use kind {' or '.join(_KINDS)} of {GROUP}"),)
        )
    if runtime is None:
        return Verdict((_missing_runtime(train_job.spec),))
    draft = _draft(train_job, runtime, context)
    changes = tuple(check_changes(train_job, old, context)) if old else ()
    return Verdict((*changes, *draft.errors), draft.warnings)


def _missing_runtime(spec: TrainJobSpec) -> Problem:
    kind, name = spec.runtime_ref.kind, spec.runtime_ref.name
    return Problem(
        "spec.runtimeRef",
        f'{kind} "{name}" not found: '
        f"specified {kind[0].lower()}{kind[1:]} must be created before the TrainJob is created",
        f"create {kind} {name}, or name one that exists (kubectl get {kind.lower()}s)",
    )


def _draft(train_job: TrainJob, runtime: Runtime, context: RenderContext) -> _Draft:
    spec = train_job.spec
    if spec is None:
        return _Draft(None, (_SPEC_MISSING,), ())
    warnings = tuple(_warnings(train_job, runtime))
    template = template_of(runtime)
    errors = (*_runtime_problems(train_job, runtime, template), *_shape_problems(spec))
    if errors:
        return _Draft(None, errors, warnings)
    patches = spec.runtime_patches or []
    errors = tuple(check_patches(patches, template))
    if errors:
        return _Draft(None, errors, warnings)
    plan = make_plan(train_job, spec, runtime, template, context)
    _framework(plan).counts(plan)
    return _Draft(plan, tuple(_plan_problems(plan)), (*warnings, *override_warnings(plan), *_policy_warnings(plan)))


def _runtime_problems(train_job: TrainJob, runtime: Runtime, template: dict[str, object]) -> Iterator[Problem]:
    name = f'{runtime.kind} "{runtime.metadata.name}"'
    for error in runtime_errors(runtime, template):
        yield Problem("spec.runtimeRef", f"{name} {error.path}: {error.message}", error.fix, error.rule)
    if not template.get("replicatedJobs"):
        yield Problem(
            "spec.runtimeRef", f"{name} spec.template.spec.replicatedJobs: is empty", "add the Jobs of the runtime"
        )


def _shape_problems(spec: TrainJobSpec) -> Iterator[Problem]:
    if spec.trainer:
        yield from faults(copied(spec.trainer.env or []), ENV, "spec.trainer.env")
        yield from faults(copied(spec.trainer.resources_per_node or {}), RESOURCES, "spec.trainer.resourcesPerNode")
    for name in ("dataset", "model"):
        source = getattr(spec.initializer, name) if spec.initializer else None
        if source:
            yield from faults(copied(source.env or []), ENV, f"spec.initializer.{name}.env")
    yield from patch_faults(spec.runtime_patches or [])


def _plan_problems(plan: Plan) -> Iterator[Problem]:
    yield from check_names(plan)
    yield from check_initializers(plan)
    yield from _framework(plan).check(plan)
    for name in gangs.chosen(plan.pod_group_policy):
        yield from gangs.GANGS[name].check(plan)


def _framework(plan: Plan) -> frameworks.Framework:
    return frameworks.FRAMEWORKS[frameworks.chosen(plan.ml_policy)[0]]


def _policy_warnings(plan: Plan) -> Iterator[Problem]:
    yield from _framework(plan).warn(plan)
    for name in gangs.chosen(plan.pod_group_policy):
        yield from gangs.GANGS[name].warn(plan)


def _warnings(train_job: TrainJob, runtime: Runtime) -> Iterator[Problem]:
    if deprecation(runtime):
        name = f'{runtime.kind} "{runtime.metadata.name}"'
        yield Problem(
            "spec.runtimeRef",
            f"Referenced {name} is deprecated and will be removed in a future release",
            f"See runtime deprecation policy: {DEPRECATION_POLICY_URL}",
        )
    for path in train_job.unknown_fields():
        yield Problem(path, "unknown field: the API server drops it", "remove it, or correct its name")
