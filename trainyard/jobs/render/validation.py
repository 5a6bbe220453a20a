"""Validation of a TrainJob against its runtime: first the inputs of resolution, then the resolved job."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Final

from trainyard.api import PodGroupPolicy, Runtime, TrainJob, TrainJobSpec
from trainyard.api.constants import ANCESTOR_LABEL, DEPRECATION_POLICY_URL
from trainyard.api.structural import schema_violations
from trainyard.checks.finding import Finding
from trainyard.jobs.render import frameworks, gangs
from trainyard.jobs.render.fixed_ranks import fixed_ranks
from trainyard.jobs.render.frameworks.base import Framework
from trainyard.jobs.render.gangs.base import GangScheduler
from trainyard.jobs.render.hosts import check_pods, unresolved_names
from trainyard.jobs.render.initializers import (
    check_initializers,
    initializer_path,
    initializer_sources,
    initializer_warnings,
)
from trainyard.jobs.render.job_changes import ReplicatedJobChange, change_shape_errors, check_number, check_targets
from trainyard.jobs.render.job_view import JobView
from trainyard.jobs.render.jobset_gates import gate_findings
from trainyard.jobs.render.jobset_rules import claim_errors
from trainyard.jobs.render.kueue import check_kueue
from trainyard.jobs.render.labels import check_metadata
from trainyard.jobs.render.name_limits import check_names
from trainyard.jobs.render.patches import RUNTIME_PATCHES, check_managers, patched_metadata
from trainyard.jobs.render.pod_editing import copied
from trainyard.jobs.render.pod_set import PodSet, ancestor_of
from trainyard.jobs.render.resolved_job import ResolvedJob
from trainyard.jobs.render.runtime_admission import deprecation, runtime_errors, runtime_warnings, step_errors
from trainyard.jobs.render.runtime_cache import once_per_runtime
from trainyard.jobs.render.runtime_snapshot import check_snapshot
from trainyard.jobs.render.shape import ENV, RESOURCES
from trainyard.jobs.render.template import template_of
from trainyard.jobs.render.trainer import trainer_warnings

_MOST_ERRORS: Final = 100
"""Errors that are reported of one TrainJob: a list of 1,000 containers for 100 jobs can have 100,000."""
_RUNTIME_POLICIES: Final = ("mlPolicy", "podGroupPolicy")
"""Fields of a runtime that its patches do not contain, as upstream."""


@once_per_runtime
def framework_of(runtime: Runtime) -> Framework[Any]:
    """Return the framework of a valid runtime."""
    return frameworks.framework_of(runtime)


@once_per_runtime
def gang_schedulers_of(runtime: Runtime) -> tuple[GangScheduler[Any], ...]:
    """Return the gang scheduler of a valid runtime, if it sets one."""
    policy = runtime.spec.pod_group_policy if runtime.spec else None
    return tuple(gangs.GANGS[name] for name in (policy or PodGroupPolicy()).chosen())


def input_errors(spec: TrainJobSpec, runtime: Runtime, changes: Sequence[ReplicatedJobChange]) -> tuple[Finding, ...]:
    """Return errors in what resolution relies on: the runtime and the schema of all fields, then references.

    Parameters
    ----------
    changes
        Changes of overrides and patches.
    """
    too_many = tuple(check_number(changes))
    errors = (*_runtime_errors(runtime), *(too_many or islice(_shape_errors(spec, changes), _MOST_ERRORS)))
    return errors or tuple(islice(_reference_errors(spec, changes, runtime), _MOST_ERRORS))


def input_warnings(train_job: TrainJob, runtime: Runtime) -> Iterator[Finding]:
    """Yield warnings about the runtime, and unknown fields of the TrainJob."""
    yield from _runtime_warnings(runtime)
    for path in train_job.unknown_fields():
        policy = path.rpartition(".")[2] in _RUNTIME_POLICIES
        fix = "set it in the runtime: a TrainJob cannot change it" if policy else "remove it, or correct its name"
        yield Finding.warning(path, "unknown field: the API server drops it", fix)


def step_findings(job: JobView, changes: Sequence[ReplicatedJobChange]) -> Iterator[Finding]:
    """Yield findings of replicatedJobs whose ancestor step is changed by overrides or patches.

    Parameters
    ----------
    job
        The job with these changes, before its framework assigns steps.
    """
    for step in _changed_steps(job, changes):
        for error in step_errors(step.pod_set.job, f'replicatedJob "{step.pod_set.name}"'):
            yield Finding(step.path, f"{error.path}: {error.message}", error.fix)
        yield Finding.warning(
            step.path,
            f'changes the ancestor step of replicatedJob "{step.pod_set.name}" '
            f"from {step.before or 'none'} to {step.pod_set.ancestor or 'none'}",
            f"remove label {ANCESTOR_LABEL} unless this is intended: "
            "it determines what numNodes, spec.trainer and spec.initializer apply to",
        )


def job_findings(job: ResolvedJob) -> Iterator[Finding]:
    """Yield findings of a resolved job; frameworks and gang schedulers only see jobs of a valid size."""
    yield from check_names(job)
    yield from check_initializers(job)
    for error in claim_errors(job.job_set_spec, "spec.template.spec.volumeClaimPolicies"):
        yield Finding("spec.runtimeRef", f"{error.path}: {error.message}", error.fix)
    for finding in gate_findings(job.job_set_spec, "spec.template.spec", job.context.job_set_gates):
        yield replace(finding, path="spec.runtimeRef", message=f"{finding.path}: {finding.message}")
    yield from check_snapshot(job)
    yield from trainer_warnings(job, one_line=framework_of(job.runtime).splits_command)
    yield from initializer_warnings(job)
    if too_many := tuple(check_pods(job)):
        yield from too_many
        return
    framework = framework_of(job.runtime)
    yield from unresolved_names(job, rendezvous=framework is not frameworks.FRAMEWORKS[frameworks.PLAIN])
    yield from check_kueue(job)
    yield from framework.validate(job)
    yield from fixed_ranks(job, framework)
    chosen = gang_schedulers_of(job.runtime)
    for gang in chosen:
        yield from gang.validate(job)
    yield from _unanswered_requests(job, chosen)


def _unanswered_requests(job: ResolvedJob, chosen: Sequence[GangScheduler[Any]]) -> Iterator[Finding]:
    """Yield annotations that request something of a gang scheduler that the runtime does not use."""
    for gang in gangs.GANGS.values():
        for key in gang.requests:
            if key in job.template.annotations and gang not in chosen:
                yield Finding(
                    f"spec.annotations[{key}]",
                    f"has no effect: the runtime has no podGroupPolicy.{gang.name}",
                    f"use a runtime with podGroupPolicy.{gang.name}, or remove the annotation",
                )


@once_per_runtime
def _runtime_errors(runtime: Runtime) -> tuple[Finding, ...]:
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
        Finding.warning("spec.runtimeRef", f"{name} {warning.path}: {warning.message}", warning.fix, warning.rule)
        for warning in runtime_warnings(runtime)
    ]
    if deprecation(runtime):
        found.insert(
            0,
            Finding.warning(
                "spec.runtimeRef",
                f"Referenced {name} is deprecated and will be removed in a future release",
                f"See runtime deprecation policy: {DEPRECATION_POLICY_URL}",
            ),
        )
    return tuple(found)


def _shape_errors(spec: TrainJobSpec, changes: Sequence[ReplicatedJobChange]) -> Iterator[Finding]:
    if spec.trainer:
        yield from schema_violations(copied(spec.trainer.env or []), ENV, "spec.trainer.env")
        yield from schema_violations(
            copied(spec.trainer.resources_per_node or {}), RESOURCES, "spec.trainer.resourcesPerNode"
        )
    for step, source in initializer_sources(spec).items():
        yield from schema_violations(copied(source.env or []), ENV, f"{initializer_path(step)}.env")
    yield from change_shape_errors(changes)


def _reference_errors(
    spec: TrainJobSpec, changes: Sequence[ReplicatedJobChange], runtime: Runtime
) -> Iterator[Finding]:
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


def _changed_steps(job: JobView, changes: Sequence[ReplicatedJobChange]) -> Iterator[_ChangedStep]:
    if not changes:
        return
    before = {body["name"]: ancestor_of(body) for body in template_of(job.runtime).jobs}
    paths = {change.job: change.generation.path for change in changes}
    for pod_set in job.pod_sets:
        if pod_set.name in paths and pod_set.ancestor != before[pod_set.name]:
            yield _ChangedStep(paths[pod_set.name], pod_set, before[pod_set.name])
