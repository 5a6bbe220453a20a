"""Admission of runtimes: errors that make a runtime unusable for all TrainJobs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from trainyard.api import Body, MLPolicy, PodGroupPolicy, Runtime, shape_rules
from trainyard.api.constants import (
    ANCESTOR_CONTAINERS,
    ANCESTOR_LABEL,
    DEPRECATION_POLICY_URL,
    MOST_JOBS,
    SUPPORT_DEPRECATED,
    SUPPORT_LABEL,
    WEBHOOK_VALIDATION_DISABLED,
    WEBHOOK_VALIDATION_LABEL,
)
from trainyard.api.structural import schema_violations
from trainyard.checks.finding import Finding, Severity
from trainyard.jobs.render import frameworks
from trainyard.jobs.render.jobset_gates import gate_findings
from trainyard.jobs.render.jobset_rules import template_errors
from trainyard.jobs.render.labels import check_metadata
from trainyard.jobs.render.pod_set import ancestor_of, container_names, step_containers
from trainyard.jobs.render.result import AdmissionDecision
from trainyard.jobs.render.runtime_cache import once_per_runtime
from trainyard.jobs.render.shape import JOB_SET_SPEC
from trainyard.jobs.render.template import Template, template_of

_SPEC = "spec.template.spec"
_JOBS = f"{_SPEC}.replicatedJobs"


def validate_runtime(
    runtime: Runtime, old: Runtime | None = None, job_set_gates: frozenset[str] = frozenset()
) -> AdmissionDecision:
    """Return the verdict of admission for a runtime.

    As upstream, a runtime whose label disables the validation is accepted; its errors are warnings, because they reject
    the TrainJobs that reference it.

    Parameters
    ----------
    runtime
        The runtime to be stored.
    old
        The stored runtime, on an update; errors that it already has do not reject the update.
    job_set_gates
        Feature gates of JobSet that are declared as enabled.
    """
    gated = _gate_findings(runtime, job_set_gates)
    known = {*runtime_errors(old), *_gate_findings(old, job_set_gates)} if old else set()
    found = (*runtime_errors(runtime), *(each for each in gated if each.severity is Severity.ERROR))
    errors = tuple(error for error in found if error not in known)
    if (runtime.metadata.labels or {}).get(WEBHOOK_VALIDATION_LABEL) == WEBHOOK_VALIDATION_DISABLED:
        return AdmissionDecision((), (*admission_warnings(runtime), *(_ignored(error) for error in errors)))
    warnings = (each for each in gated if each.severity is Severity.WARNING)
    return AdmissionDecision(errors, (*admission_warnings(runtime), *runtime_warnings(runtime), *warnings))


def _ignored(error: Finding) -> Finding:
    message = f"{error.message}: accepted because of label {WEBHOOK_VALIDATION_LABEL}, but its TrainJobs are rejected"
    return replace(error, message=message, severity=Severity.WARNING)


def deprecation(runtime: Runtime) -> bool:
    """Return whether the runtime is marked as deprecated."""
    return (runtime.metadata.labels or {}).get(SUPPORT_LABEL) == SUPPORT_DEPRECATED


@once_per_runtime
def runtime_errors(runtime: Runtime) -> tuple[Finding, ...]:
    """Return the errors of a runtime, with field paths in the runtime."""
    spec = runtime.spec
    template = template_of(runtime)
    found = [
        *_policy_errors(
            (spec.ml_policy if spec else None) or MLPolicy(),
            (spec.pod_group_policy if spec else None) or PodGroupPolicy(),
        ),
        *check_metadata("spec.template.metadata", template.labels, template.annotations),
    ]
    malformed = tuple(schema_violations(template.spec, JOB_SET_SPEC, _SPEC))
    if malformed:
        return (*found, *malformed)
    for index, job in enumerate(template.jobs):
        found.extend(step_errors(job, f"{_JOBS}[{index}]"))
    if (number := len(template.jobs)) > MOST_JOBS:
        message = f"{number} replicatedJobs; the status of a TrainJob has at most {MOST_JOBS}"
        return (*found, Finding(_JOBS, message, "use replicas of fewer replicatedJobs"))
    return (*found, *template_errors(template.spec, _SPEC))


def _gate_findings(runtime: Runtime, job_set_gates: frozenset[str]) -> tuple[Finding, ...]:
    """Return the findings of fields that require feature gates of JobSet, with field paths in the runtime."""
    return () if runtime_errors(runtime) else tuple(gate_findings(template_of(runtime).spec, _SPEC, job_set_gates))


@once_per_runtime
def runtime_warnings(runtime: Runtime) -> tuple[Finding, ...]:
    """Return warnings about valid settings with unexpected effects."""
    if runtime_errors(runtime):
        return ()
    template = template_of(runtime)
    return (*_label_warnings(template), *_replica_warnings(runtime), *_job_set_warnings(template))


def step_errors(job: Body, path: str) -> Iterator[Finding]:
    """Yield errors of a replicatedJob that is labeled as an ancestor step of the TrainJob.

    Parameters
    ----------
    job
        The replicatedJob.
    path
        Path of the replicatedJob in findings.
    """
    ancestor = ancestor_of(job)
    if ancestor not in ANCESTOR_CONTAINERS:
        return
    replicas = job.get("replicas", 1)
    if replicas != 1:
        yield Finding(
            f"{path}.replicas",
            f"always must be 1, but is {replicas}",
            "set mlPolicy.numNodes for the number of nodes",
        )
    required = step_containers(ancestor, job["name"])
    init = {container["name"] for container in job["template"]["spec"]["template"]["spec"].get("initContainers", ())}
    if not set(required) & (set(container_names(job)) - init):
        yield Finding(
            f"{path}.template.spec.template.spec.containers",
            f"must contain the required container for the ancestor: {ancestor}",
            f"name one container {' or '.join(required)}",
        )


def _policy_errors(ml_policy: MLPolicy, pod_group_policy: PodGroupPolicy) -> Iterator[Finding]:
    for path, names, rule in (
        ("spec.mlPolicy", frameworks.chosen(ml_policy), "MLP-001"),
        ("spec.podGroupPolicy", pod_group_policy.chosen(), "PGP-001"),
    ):
        if len(names) > 1:
            shape = shape_rules()[rule]
            yield Finding(path, f"{shape.text} (configured: {', '.join(names)})", shape.fix, rule)


def _replica_warnings(runtime: Runtime) -> Iterator[Finding]:
    template = runtime.spec.template if runtime.spec else None
    for index, job in enumerate(((template.spec if template else None) or {}).get("replicatedJobs") or ()):
        if job.get("replicas") == 0:
            message = "0 is unset, which means 1, for Kubeflow Trainer and Kueue: one Job runs"
            yield Finding(f"{_JOBS}[{index}].replicas", message, "remove the replicatedJob if it should not run")


def _job_set_warnings(template: Template) -> Iterator[Finding]:
    """Yield fields that JobSet accepts, and that break jobs (``shouldCreateJob``, ``createHeadlessSvcIfNecessary``)."""
    for index, job in enumerate(template.jobs):
        if job["template"]["spec"].get("ttlSecondsAfterFinished") is not None:
            yield Finding(
                f"{_JOBS}[{index}].template.spec.ttlSecondsAfterFinished",
                "deletes the Job after its end, and JobSet creates it again while others run: it runs again and again",
                f"remove it; {_SPEC}.ttlSecondsAfterFinished deletes the whole JobSet after its end",
            )
    network = template.spec.get("network") or {}
    if (subdomain := network.get("subdomain")) and network.get("enableDNSHostnames", True):
        yield Finding(
            f"{_SPEC}.network.subdomain",
            f'all TrainJobs of a namespace share Service "{subdomain}", which selects the pods of the first: the pods '
            "of the others do not resolve each other",
            "remove it: each TrainJob then has a Service of its own name",
        )


def _label_warnings(template: Template) -> Iterator[Finding]:
    for index, job in enumerate(template.jobs):
        labels = job["template"].get("metadata", {}).get("labels", {})
        pod_labels = job["template"]["spec"]["template"].get("metadata", {}).get("labels", {})
        step = pod_labels.get(ANCESTOR_LABEL)
        if step is None or step == labels.get(ANCESTOR_LABEL):
            continue
        message = (
            f"is {step!r}, but {labels[ANCESTOR_LABEL]!r} on the Job template takes precedence"
            if ANCESTOR_LABEL in labels
            else f"is {step!r}, but unset on the Job template: Trainyard honors it, Kubeflow Trainer ignores it"
        )
        yield Finding(
            f"{_JOBS}[{index}].template.spec.template.metadata.labels[{ANCESTOR_LABEL}]",
            message,
            "put the label on the Job template (template.metadata.labels) only",
        )


def admission_warnings(runtime: Runtime) -> Iterator[Finding]:
    """Yield warnings about a deprecated runtime and unknown fields."""
    if deprecation(runtime):
        yield Finding(
            f"metadata.labels[{SUPPORT_LABEL}]",
            f'{runtime.kind} "{runtime.metadata.name}" is deprecated and will be removed in a future release',
            f"See runtime deprecation policy: {DEPRECATION_POLICY_URL}",
        )
    for path in runtime.unknown_fields():
        yield Finding(path, "unknown field: the API server drops it", "remove it, or correct its name")
