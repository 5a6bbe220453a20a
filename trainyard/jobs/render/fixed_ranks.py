"""Ranks and numbers of processes that reach every pod with one value.

A pod template has one value for all its pods, so a rank must come from a field of the pod, directly or by a reference
to such a variable. Each framework lists the names that its programs read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from dataclasses import replace
from typing import Any

from trainyard.api.constants import CONTAINER_NODE, TRAINER
from trainyard.checks.finding import Finding, Severity
from trainyard.jobs.render.frameworks.base import Framework
from trainyard.jobs.render.patches import RUNTIME_PATCHES
from trainyard.jobs.render.pod_set import LAUNCHER, PodSet
from trainyard.jobs.render.resolved_job import ResolvedJob
from trainyard.jobs.render.template import template_of

_RANK_FIX = "remove it: the runtime gives each pod its own; or read a field of the pod with valueFrom.fieldRef"
_SHARED_FIELDS = ("metadata.namespace", "spec.serviceAccountName")
"""Fields that are the same in all pods of a job."""
_SIZE_FIX = "remove it: the runtime sets the number of nodes"


def fixed_ranks(job: ResolvedJob, framework: Framework[Any]) -> Iterator[Finding]:
    """Yield variables that give several pods the same rank, or a number of processes that the job does not have.

    They are errors if the processes read them, and warnings if a launcher sets them again for the processes it starts,
    or if the job has its own coordinator.
    """
    if not (framework.ranks or framework.sizes):
        return
    participants = [each for each in job.pod_sets if each.ancestor == TRAINER or each.name == CONTAINER_NODE]
    pods = sum(pod_set.pods for pod_set in participants)
    if pods < 2:
        return
    trainer = list((job.spec.trainer.env if job.spec.trainer else None) or ())
    replaced = {str(variable.get("name")) for variable in trainer}
    own_coordinator = framework.coordinator in replaced
    counts = {pods, sum(pod_set.pods for pod_set in participants if pod_set.name != LAUNCHER)}
    severity = Severity.ERROR if framework.coordinator and not own_coordinator else Severity.WARNING
    constants = set[str]()
    for index, variable in enumerate(trainer):
        for message, fix in _messages(variable, framework, counts, constants, sizes=not own_coordinator):
            yield Finding(f"spec.trainer.env[{index}]", message, fix, severity=severity)
        if _is_constant(variable, constants):
            constants.add(str(variable.get("name")))
    for pod_set in participants:
        for finding in _in_template(job, pod_set, framework, replaced, counts):
            yield replace(finding, severity=severity)


def _in_template(
    job: ResolvedJob, pod_set: PodSet, framework: Framework[Any], replaced: set[str], counts: Set[int]
) -> Iterator[Finding]:
    """Yield variables of runtime and patches, but not those that framework or TrainJob replace."""
    runtime = PodSet(template_of(job.runtime).job(pod_set.name) or {}, 1)
    for container in pod_set.pod.get("containers", ()):
        before = runtime.container(container["name"]) if runtime.job else None
        known = (before or {}).get("env", ())
        skipped = replaced | set(framework.variables) if container is pod_set.main_container else set()
        for variable in container.get("env", ()):
            if variable["name"] in skipped:
                continue
            path = "spec.runtimeRef" if variable in known else RUNTIME_PATCHES.path
            where = f'container "{container["name"]}" of replicatedJob "{pod_set.name}"'
            for message, fix in _messages(variable, framework, counts):
                yield Finding(path, f"{where}: {message}", fix)


def _messages(
    variable: Mapping[str, Any],
    framework: Framework[Any],
    counts: Set[int],
    constants: Set[str] = frozenset(),
    *,
    sizes: bool = True,
) -> Iterator[tuple[str, str]]:
    name, pods = str(variable.get("name")), max(counts)
    if name in framework.reserved:
        return
    if name in framework.ranks and _is_constant(variable, constants):
        yield f"{name} is the same in all {pods} pods, but each process needs its own", _RANK_FIX
    if sizes and name in framework.sizes and _is_wrong(variable, counts):
        yield f"{name} is {variable['value']}, but the job has {pods} pods", _SIZE_FIX


def _is_constant(variable: Mapping[str, Any], constants: Set[str]) -> bool:
    """Return whether a variable has the same value in all pods; references may be to other constants."""
    source = variable.get("valueFrom")
    if source:
        field = source.get("fieldRef")
        return not field or field.get("fieldPath") in _SHARED_FIELDS
    value = str(variable.get("value") or "")
    names = (part.partition("$(")[2] for part in value.split(")")[:-1])
    return all(name in constants for name in names if name and len(name.split()) == 1)


def _is_wrong(variable: Mapping[str, Any], counts: Set[int]) -> bool:
    """Return whether a number is neither that of the pods nor, with as many in each pod, that of processes."""
    value = str(variable.get("value") or "")
    if variable.get("valueFrom") or not value.lstrip("-").isdecimal():
        return False
    number = int(value) if len(value) < 20 else 0
    return number < 1 or all(count == 0 or number % count for count in counts)
