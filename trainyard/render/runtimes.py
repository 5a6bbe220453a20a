"""Admission of runtimes: what makes a runtime unusable for every TrainJob."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from trainyard.api import SHAPE_RULES, Body, MLPolicy, PodGroupPolicy, Runtime
from trainyard.api.constants import (
    ANCESTOR_CONTAINERS,
    ANCESTOR_LABEL,
    DEPRECATION_POLICY_URL,
    SUPPORT_DEPRECATED,
    SUPPORT_LABEL,
)
from trainyard.problem import Problem
from trainyard.render import frameworks, gangs
from trainyard.render.plan import template_of
from trainyard.render.result import Verdict
from trainyard.render.shape import JOB_SET_SPEC, faults

__all__ = ["deprecation", "runtime_errors", "validate_runtime"]

_JOBS = "spec.template.spec.replicatedJobs"


def validate_runtime(runtime: Runtime, old: Runtime | None = None) -> Verdict:
    """Return the answer of admission for a runtime.

    Parameters
    ----------
    runtime
        The runtime as it would be stored.
    old
        The runtime as it is stored; what was wrong with it already does not stand in the way of an update.
    """
    known = set(runtime_errors(old, template_of(old))) if old else set()
    errors = tuple(error for error in runtime_errors(runtime, template_of(runtime)) if error not in known)
    return Verdict(errors, tuple(_warnings(runtime)))


def deprecation(runtime: Runtime) -> bool:
    """Return whether the runtime is marked as deprecated."""
    return (runtime.metadata.labels or {}).get(SUPPORT_LABEL) == SUPPORT_DEPRECATED


def runtime_errors(runtime: Runtime, template: Body) -> tuple[Problem, ...]:
    """Return what is wrong with a runtime, by its own field paths.

    Parameters
    ----------
    template
        The runtime's JobSet specification.
    """
    spec = runtime.spec
    found = [
        *_policy_errors(
            (spec.ml_policy if spec else None) or MLPolicy(),
            (spec.pod_group_policy if spec else None) or PodGroupPolicy(),
        )
    ]
    broken = tuple(faults(template, JOB_SET_SPEC, "spec.template.spec"))
    jobs = template.get("replicatedJobs", ()) if not broken else ()
    found.extend((*broken, *_replicated_job_errors(jobs), *_dependency_errors(jobs)))
    return tuple(found)


def _policy_errors(ml_policy: MLPolicy, pod_group_policy: PodGroupPolicy) -> Iterator[Problem]:
    yield from _source_errors(
        "spec.mlPolicy", "framework", frameworks.chosen(ml_policy), frameworks.FRAMEWORKS, "MLP-001"
    )
    yield from _source_errors(
        "spec.podGroupPolicy", "gang scheduler", gangs.chosen(pod_group_policy), gangs.GANGS, "PGP-001"
    )


def _source_errors(
    path: str, what: str, names: tuple[str, ...], supported: Iterable[str], rule: str
) -> Iterator[Problem]:
    if len(names) > 1:
        shape = SHAPE_RULES[rule]
        yield Problem(path, f"{shape.text} (configured: {', '.join(names)})", shape.fix, rule)
    elif names and names[0] not in supported:
        yield Problem(f"{path}.{names[0]}", f"{what} {names[0]} is not supported", f"use one of {', '.join(supported)}")


def _replicated_job_errors(jobs: Iterable[Body]) -> Iterator[Problem]:
    for index, job in enumerate(jobs):
        ancestor = job["template"].get("metadata", {}).get("labels", {}).get(ANCESTOR_LABEL)
        if ancestor not in ANCESTOR_CONTAINERS:
            continue
        replicas = job.get("replicas", 1)
        if replicas != 1:
            yield Problem(
                f"{_JOBS}[{index}].replicas",
                f"always must be 1, but is {replicas}",
                "set mlPolicy.numNodes for the number of nodes",
            )
        required = ANCESTOR_CONTAINERS[ancestor]
        if all(
            container["name"] != required for container in job["template"]["spec"]["template"]["spec"]["containers"]
        ):
            yield Problem(
                f"{_JOBS}[{index}].template.spec.template.spec.containers",
                f"must contain the required container for the ancestor: {ancestor}",
                f"name one container {required}",
            )


def _dependency_errors(jobs: Iterable[Body]) -> Iterator[Problem]:
    """Yield what JobSet would refuse: a job can only wait for jobs that come before it."""
    earlier: list[str] = []
    for index, job in enumerate(jobs):
        for position, dependency in enumerate(job.get("dependsOn", ())):
            if dependency["name"] not in earlier:
                yield Problem(
                    f"{_JOBS}[{index}].dependsOn[{position}].name",
                    f"{dependency['name']!r} is not a replicatedJob that comes before {job['name']!r}",
                    f"name one of {', '.join(earlier) or 'none: the first replicatedJob cannot wait'}",
                )
        earlier.append(job["name"])


def _warnings(runtime: Runtime) -> Iterator[Problem]:
    if deprecation(runtime):
        yield Problem(
            f"metadata.labels[{SUPPORT_LABEL}]",
            f'{runtime.kind} "{runtime.metadata.name}" is deprecated and will be removed in a future release',
            f"See runtime deprecation policy: {DEPRECATION_POLICY_URL}",
        )
    for path in runtime.unknown_fields():
        yield Problem(path, "unknown field: the API server drops it", "remove it, or correct its name")
