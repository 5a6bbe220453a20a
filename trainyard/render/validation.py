"""Validate a TrainJob against its runtime: the plan, or the validation errors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from trainyard.api import PodGroupPolicy, Runtime, TrainJob, TrainJobSpec
from trainyard.api.constants import ANCESTOR_LABEL, DEPRECATION_POLICY_URL
from trainyard.checks.finding import Finding
from trainyard.render import frameworks, gangs
from trainyard.render.hosts import check_pods
from trainyard.render.initializers import check_initializers, initializer_sources, initializer_warnings
from trainyard.render.job_changes import Change, change_shape_errors, check_targets
from trainyard.render.jobset_rules import claim_errors
from trainyard.render.labels import check_metadata
from trainyard.render.name_limits import check_names
from trainyard.render.overrides import pod_spec_overrides, pod_template_overrides
from trainyard.render.patches import RUNTIME_PATCHES, check_managers, patched_metadata, runtime_patches
from trainyard.render.pod_editing import copied
from trainyard.render.pod_set import PodSet, ancestor_of
from trainyard.render.result import RenderContext
from trainyard.render.runtime_admission import deprecation, runtime_errors, runtime_warnings, step_errors
from trainyard.render.runtime_cache import once_per_runtime
from trainyard.render.runtime_snapshot import check_snapshot
from trainyard.render.shape import ENV, RESOURCES, shape_errors
from trainyard.render.template import template_of
from trainyard.render.trainer import trainer_warnings
from trainyard.render.working_state import Plan, make_plan

__all__ = ["SPEC_MISSING", "Draft", "draft_of", "framework_of", "gang_schedulers_of"]

SPEC_MISSING = Finding("spec.runtimeRef", "Field required", "name a runtime")


@dataclass(frozen=True)
class Draft:
    """Result of validating a TrainJob against its runtime.

    Parameters
    ----------
    plan
        The plan; None: there are errors.
    errors, warnings
        Findings.
    """

    plan: Plan | None
    errors: tuple[Finding, ...]
    warnings: tuple[Finding, ...]


def draft_of(train_job: TrainJob, runtime: Runtime, context: RenderContext) -> Draft:
    """Return the plan of a TrainJob, or the validation errors.

    Later checks depend on earlier ones: first the runtime and the schema of all fields, then
    references, then the merged plan.
    """
    spec = train_job.spec
    if spec is None:
        return Draft(None, (SPEC_MISSING,), ())
    warnings = _warnings(train_job, runtime)
    changes = (*pod_spec_overrides(spec), *pod_template_overrides(spec), *runtime_patches(spec))
    errors = (*_runtime_findings(runtime), *_shape_findings(spec, changes))
    if not errors:
        errors = tuple(_reference_findings(spec, changes, runtime))
    if errors:
        return Draft(None, errors, warnings)
    plan = make_plan(train_job, spec, runtime, template_of(runtime), changes, context)
    steps = tuple(_changed_steps(plan, changes))
    errors, warnings = tuple(_step_findings(steps)), (*warnings, *_step_warnings(steps))
    framework_of(plan.runtime).counts(plan)
    errors, warnings = (*errors, *_plan_findings(plan)), (*warnings, *_plan_warnings(plan))
    return Draft(None if errors else plan, errors, warnings)


@once_per_runtime
def framework_of(runtime: Runtime) -> frameworks.Framework[Any]:
    """Return the framework of a valid runtime."""
    return frameworks.framework_of(runtime)


@once_per_runtime
def gang_schedulers_of(runtime: Runtime) -> tuple[gangs.GangScheduler[Any], ...]:
    """Return the gang scheduler of a valid runtime, if it sets one."""
    policy = runtime.spec.pod_group_policy if runtime.spec else None
    return tuple(gangs.GANGS[name] for name in (policy or PodGroupPolicy()).chosen())


@once_per_runtime
def _runtime_findings(runtime: Runtime) -> tuple[Finding, ...]:
    name = f'{runtime.kind} "{runtime.metadata.name}"'
    found = [
        Finding("spec.runtimeRef", f"{name} {error.path}: {error.message}", error.fix, error.rule)
        for error in runtime_errors(runtime)
    ]
    if not template_of(runtime).spec.get("replicatedJobs"):
        message = f"{name} spec.template.spec.replicatedJobs: is empty"
        found.append(Finding("spec.runtimeRef", message, "add at least one replicatedJob to the runtime"))
    return tuple(found)


@once_per_runtime
def _runtime_warnings(runtime: Runtime) -> tuple[Finding, ...]:
    name = f'{runtime.kind} "{runtime.metadata.name}"'
    found = [
        Finding("spec.runtimeRef", f"{name} {warning.path}: {warning.message}", warning.fix, warning.rule)
        for warning in runtime_warnings(runtime)
    ]
    if deprecation(runtime):
        found.insert(
            0,
            Finding(
                "spec.runtimeRef",
                f"Referenced {name} is deprecated and will be removed in a future release",
                f"See runtime deprecation policy: {DEPRECATION_POLICY_URL}",
            ),
        )
    return tuple(found)


def _warnings(train_job: TrainJob, runtime: Runtime) -> tuple[Finding, ...]:
    unknown = (
        Finding(path, "unknown field: the API server drops it", "remove it, or correct its name")
        for path in train_job.unknown_fields()
    )
    return (*_runtime_warnings(runtime), *unknown)


def _shape_findings(spec: TrainJobSpec, changes: tuple[Change, ...]) -> Iterator[Finding]:
    if spec.trainer:
        yield from shape_errors(copied(spec.trainer.env or []), ENV, "spec.trainer.env")
        yield from shape_errors(
            copied(spec.trainer.resources_per_node or {}), RESOURCES, "spec.trainer.resourcesPerNode"
        )
    for step, source in initializer_sources(spec).items():
        path = f"spec.initializer.{step.removesuffix('-initializer')}.env"
        yield from shape_errors(copied(source.env or []), ENV, path)
    yield from change_shape_errors(changes)


def _reference_findings(spec: TrainJobSpec, changes: tuple[Change, ...], runtime: Runtime) -> Iterator[Finding]:
    yield from check_metadata("spec", spec.labels or {}, spec.annotations or {})
    for metadata in patched_metadata(spec):
        path = f"{RUNTIME_PATCHES.path}.trainingRuntimeSpec.template.metadata"
        yield from check_metadata(path, metadata.labels or {}, metadata.annotations or {})
    yield from check_managers(spec)
    yield from check_targets(changes, template_of(runtime))


@dataclass(frozen=True)
class _ChangedStep:
    """A replicatedJob whose ancestor step is changed by overrides or patches."""

    path: str
    pod_set: PodSet
    before: str | None


def _changed_steps(plan: Plan, changes: tuple[Change, ...]) -> Iterator[_ChangedStep]:
    before = {job["name"]: ancestor_of(job) for job in template_of(plan.runtime).jobs} if changes else {}
    paths = {change.job: change.generation.path for change in changes}
    for pod_set in plan.pod_sets:
        if pod_set.name in paths and pod_set.ancestor != before[pod_set.name]:
            yield _ChangedStep(paths[pod_set.name], pod_set, before[pod_set.name])


def _step_findings(steps: tuple[_ChangedStep, ...]) -> Iterator[Finding]:
    for step in steps:
        for error in step_errors(step.pod_set.job, f'replicatedJob "{step.pod_set.name}"'):
            yield Finding(step.path, f"{error.path}: {error.message}", error.fix)


def _step_warnings(steps: tuple[_ChangedStep, ...]) -> Iterator[Finding]:
    for step in steps:
        yield Finding(
            step.path,
            f'changes the ancestor step of replicatedJob "{step.pod_set.name}" '
            f"from {step.before or 'none'} to {step.pod_set.ancestor or 'none'}",
            f"remove label {ANCESTOR_LABEL} unless this is intended: "
            "it determines what numNodes, spec.trainer and spec.initializer apply to",
        )


def _plan_findings(plan: Plan) -> Iterator[Finding]:
    yield from check_names(plan)
    yield from check_initializers(plan)
    for error in claim_errors(plan.job_set_spec, "spec.template.spec.volumeClaimPolicies"):
        yield Finding("spec.runtimeRef", f"{error.path}: {error.message}", error.fix)
    yield from check_snapshot(plan)
    if too_many := tuple(check_pods(plan)):
        yield from too_many
        return
    yield from framework_of(plan.runtime).check(plan)
    for gang in gang_schedulers_of(plan.runtime):
        yield from gang.check(plan)


def _plan_warnings(plan: Plan) -> Iterator[Finding]:
    yield from trainer_warnings(plan)
    yield from initializer_warnings(plan)
    yield from framework_of(plan.runtime).warn(plan)
    for gang in gang_schedulers_of(plan.runtime):
        yield from gang.warn(plan)
    yield from plan.warnings
