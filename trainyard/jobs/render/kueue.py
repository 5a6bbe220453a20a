"""Pod sets that Kueue counts, and validation that a TrainJob in a queue of Kueue runs the pods that are charged.

Kueue does not read the JobSet. It builds its own from TrainJob and runtime with the library of Trainer v2.1, which its
go.mod pins (Kueue 0.16), and charges the pods of that one. This module follows that library: it knows the frameworks
torch and mpi alone, applies podTemplateOverrides but no runtimePatches, and replaces the resources of a training
container by resourcesPerNode instead of merging them. A job that would run other pods is rejected: it would bypass the
quota, or be evicted because its pods never become ready.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from trainyard import quantity
from trainyard.api import Body, Runtime, TrainJobSpec
from trainyard.api.constants import (
    ANCESTOR_CONTAINERS,
    ANCESTOR_LABEL,
    CONTAINER_NODE,
    KUEUE_POD_SET_LABEL,
    KUEUE_QUEUE_LABEL,
    TRAINER,
)
from trainyard.checks.finding import Finding
from trainyard.jobs.render.job_changes import merge_changes
from trainyard.jobs.render.overrides import pod_template_overrides
from trainyard.jobs.render.pod_editing import copied, stored
from trainyard.jobs.render.pod_set import LAUNCHER, PodSet
from trainyard.jobs.render.resolved_job import ResolvedJob
from trainyard.jobs.render.runtime_admission import runtime_errors
from trainyard.jobs.render.runtime_cache import once_per_runtime
from trainyard.jobs.render.template import template_of
from trainyard.scheduling.queues.pod_requests import ExactAmounts, requests_of

IGNORED: Final[Mapping[str, str]] = {
    "spec.podSpecOverrides": "use podTemplateOverrides",
    "spec.runtimePatches": "use podTemplateOverrides",
    "spec.activeDeadlineSeconds": "use label kueue.x-k8s.io/max-exec-time-seconds to limit the time after admission",
}
"""Fields of a TrainJob that Trainer v2.1 does not have, and what to use instead."""

_OPEN_MPI: Final = "OpenMPI"
_QUEUE_FIX: Final = f"or remove label {KUEUE_QUEUE_LABEL} and use a queue of Volcano"


@dataclass(frozen=True)
class CountedPodSet:
    """The pods of one replicatedJob.

    Parameters
    ----------
    name
        Name of the replicatedJob.
    replicas
        Number of its Jobs.
    count
        Pods of each Job.
    requests
        Requests of one pod, as the scheduler counts them.
    claims
        Resource claims that its containers refer to.
    """

    name: str
    replicas: int
    count: int
    requests: ExactAmounts
    claims: frozenset[str]

    def __str__(self) -> str:
        """Return name and number of pods."""
        return f"{self.name} x {self.count * self.replicas}"


def counted_pod_sets(spec: TrainJobSpec, runtime: Runtime) -> tuple[CountedPodSet, ...]:
    """Return the pod sets that Kueue charges.

    Parameters
    ----------
    spec
        Specification of the TrainJob; its overrides name existing replicatedJobs.
    runtime
        The referenced runtime, as stored.
    """
    jobs = _merged_jobs(spec, runtime)
    counts = _counts(jobs, spec, runtime)
    policy = _policy(runtime)
    requested = copied(spec.trainer.resources_per_node if spec.trainer else None) or {}
    replaced = {name: requested[name] for name in ("limits", "requests") if name in requested}
    with_nodes = bool((policy.get("mpi") or {}).get("runLauncherAsNode"))
    found = []
    for job, count in zip(jobs, counts, strict=True):
        ancestor, pod = _ancestor(job), job["template"]["spec"]["template"]["spec"]
        if replaced and (ancestor == TRAINER or (with_nodes and job["name"] == CONTAINER_NODE)):
            pod = _with_resources(pod, replaced)
        replicas = 1 if ancestor in ANCESTOR_CONTAINERS else int(job.get("replicas", 1))
        found.append(CountedPodSet(job["name"], replicas, count, requests_of(pod), _claims(pod)))
    return tuple(found)


def counting_error(runtime: Runtime) -> str | None:
    """Return why Kueue cannot count the pods of a runtime, or None if it can."""
    mpi = _policy(runtime).get("mpi")
    implementation = (mpi or {}).get("mpiImplementation", _OPEN_MPI)
    if mpi is None or implementation == _OPEN_MPI:
        return None
    launcher = template_of(runtime).job(LAUNCHER)
    if launcher is None or PodSet(launcher, 1).container(CONTAINER_NODE) is None:
        return None
    return f"mpiImplementation {implementation!r} is not supported by Kueue, which never admits the job"


def check_kueue(job: ResolvedJob) -> Iterator[Finding]:
    """Yield errors and warnings of a job that Kueue manages: pods that it would count in another way."""
    if job.kueue_queue is None:
        return
    spec = stored(job.spec)
    for path, fix in IGNORED.items():
        if spec.get(path.removeprefix("spec.")):
            yield Finding.warning(path, "is unknown to Kueue, which counts and places the pods without it", fix)
    errors = (*_charge_errors(job, job.runtime), *_placement_errors(job))
    if not errors and job.context.from_snapshot:
        errors = tuple(_changed_errors(job, job.context.stored_runtime))
    yield from errors or _launcher_warnings(job)


def _charge_errors(job: ResolvedJob, runtime: Runtime) -> Iterator[Finding]:
    """Yield differences between the pods that run and those that Kueue counts of a runtime."""
    if error := counting_error(runtime):
        yield Finding("spec.runtimeRef", error, f"use a runtime with OpenMPI, {_QUEUE_FIX}")
        return
    counted = counted_pod_sets(job.spec, runtime)
    rendered = tuple(_counted(pod_set) for pod_set in job.pod_sets)
    if [_size(pod_set) for pod_set in counted] != [_size(pod_set) for pod_set in rendered]:
        yield _count_error(job, counted, rendered)
        return
    for theirs, ours in zip(counted, rendered, strict=True):
        yield from _resource_errors(job, theirs, ours)


def _changed_errors(job: ResolvedJob, now: Runtime | None) -> Iterator[Finding]:
    """Yield differences from a runtime that was changed since: the job runs its snapshot, which Kueue does not read."""
    name = f'{job.runtime.kind} "{job.runtime.metadata.name}"'
    fix = f"change it back, or delete the TrainJob and create it again, {_QUEUE_FIX}"
    if now is None or runtime_errors(now):
        state = "does not exist any more" if now is None else "is invalid now"
        yield Finding("spec.runtimeRef", f"{name} {state}, so Kueue cannot count the pods", fix)
        return
    for error in _charge_errors(job, now):
        message = f"{name} was changed after the job was created, which runs the earlier one: {error.message}"
        yield replace(error, path="spec.runtimeRef", message=message, fix=fix)


def _merged_jobs(spec: TrainJobSpec, runtime: Runtime) -> list[Body]:
    template = template_of(runtime)
    changes = tuple(change for change in pod_template_overrides(spec) if template.job(change.job) is not None)
    if not changes:
        return template.jobs
    job_set_spec = template.copy()
    merge_changes(job_set_spec, changes)
    jobs: list[Body] = job_set_spec["replicatedJobs"]
    return jobs


def _counts(jobs: list[Body], spec: TrainJobSpec, runtime: Runtime) -> list[int]:
    policy, requested = _policy(runtime), spec.trainer.num_nodes if spec.trainer else None
    has_policy = bool(runtime.spec and runtime.spec.ml_policy is not None)
    counts = [
        max(policy.get("numNodes") or 1, 1)
        if has_policy and _ancestor(job) == TRAINER
        else max(int(job["template"]["spec"].get("parallelism", 1)), 1)
        for job in jobs
    ]
    if requested is None:
        return counts
    mpi = policy.get("mpi")
    for index, job in enumerate(jobs):
        if mpi is not None and job["name"] == CONTAINER_NODE:
            counts[index] = max(requested - 1, 1) if mpi.get("runLauncherAsNode") else requested
            break
        if mpi is None and _ancestor(job) == TRAINER:
            counts[index] = requested
            break
    return counts


@once_per_runtime
def _policy(runtime: Runtime) -> Body:
    """Return the mlPolicy of a runtime; must not be modified."""
    policy = runtime.spec.ml_policy if runtime.spec else None
    return stored(policy) if policy is not None else {}


def _ancestor(job: Body) -> str | None:
    """Return the ancestor step; Trainer v2.1 reads the label of the Job template alone."""
    value = job["template"].get("metadata", {}).get("labels", {}).get(ANCESTOR_LABEL)
    return None if value is None else str(value)


def _with_resources(pod: Body, resources: Body) -> Body:
    containers = [
        {**container, "resources": resources} if container["name"] == CONTAINER_NODE else container
        for container in pod.get("containers", ())
    ]
    return {**pod, "containers": containers}


def _claims(pod: Mapping[str, Any]) -> frozenset[str]:
    containers = (*pod.get("initContainers", ()), *pod.get("containers", ()))
    return frozenset(
        claim["name"] for container in containers for claim in container.get("resources", {}).get("claims", ())
    )


def _counted(pod_set: PodSet) -> CountedPodSet:
    pod = pod_set.pod
    return CountedPodSet(pod_set.name, pod_set.replicas, pod_set.count, requests_of(pod), _claims(pod))


def _size(pod_set: CountedPodSet) -> tuple[str, int, int]:
    return pod_set.name, pod_set.replicas, pod_set.count


def _count_error(job: ResolvedJob, counted: tuple[CountedPodSet, ...], rendered: tuple[CountedPodSet, ...]) -> Finding:
    theirs, ours = (", ".join(map(str, pod_sets)) for pod_sets in (counted, rendered))
    message = f"Kueue counts the pods {theirs}, but the job runs {ours}"
    policy = _policy(job.runtime)
    if job.spec.runtime_patches and _relabels(job):
        return Finding("spec.runtimePatches", message, f"leave label {ANCESTOR_LABEL} as it is, {_QUEUE_FIX}")
    if any(PodSet(each, 1).ancestor != _ancestor(each) for each in template_of(job.runtime).jobs):
        fix = f"move label {ANCESTOR_LABEL} of the runtime from the pod template to the Job template"
        return Finding("spec.runtimeRef", message, f"{fix}, {_QUEUE_FIX}")
    if "elasticPolicy" in (policy.get("torch") or {}):
        nodes = job.trainer.count if job.trainer else 1
        return Finding("spec.trainer.numNodes", message, f"set the number of nodes, such as {nodes}, {_QUEUE_FIX}")
    if "mpi" in policy and (policy.get("numNodes") or 1) > 1:
        fix = "remove mlPolicy.numNodes, which counts launchers, from the runtime and set spec.trainer.numNodes"
        return Finding("spec.runtimeRef", message, f"{fix}, {_QUEUE_FIX}")
    return Finding("spec.runtimeRef", message, f"use a runtime of another framework, {_QUEUE_FIX}")


def _relabels(job: ResolvedJob) -> bool:
    """Return whether the TrainJob changes the ancestor step of a replicatedJob."""
    template = template_of(job.runtime)
    own = {each["name"]: _ancestor(each) for each in template.jobs}
    return any(pod_set.name in own and own[pod_set.name] != _ancestor(pod_set.job) for pod_set in job.pod_sets)


def _resource_errors(job: ResolvedJob, counted: CountedPodSet, rendered: CountedPodSet) -> Iterator[Finding]:
    where = f'replicatedJob "{counted.name}"'
    if counted.claims != rendered.claims:
        names = ", ".join(sorted(counted.claims ^ rendered.claims))
        yield Finding(
            "spec.trainer.resourcesPerNode",
            f"Kueue does not see the claims of the pods of {where} as they are: {names}",
            f"set the claims and all resources of the node in the runtime, {_QUEUE_FIX}",
        )
    if _nonzero(counted.requests) == _nonzero(rendered.requests):
        return
    message = (
        f"Kueue counts {_listed(counted.requests)} for each pod of {where}, which requests {_listed(rendered.requests)}"
    )
    missing = sorted(_nonzero(rendered.requests).keys() - _nonzero(counted.requests).keys())
    launched = job.pod_set(LAUNCHER)
    if counted.name == LAUNCHER and launched is not None and launched.container(CONTAINER_NODE) is None:
        fix = f"name the container of the launcher {CONTAINER_NODE} in the runtime"
    elif missing:
        fix = f"also name {', '.join(missing)} there: Kueue replaces the resources of the runtime by these"
    else:
        fix = "name the same resources as the runtime, with requests and limits"
    yield Finding("spec.trainer.resourcesPerNode", message, f"{fix}, {_QUEUE_FIX}")


def _placement_errors(job: ResolvedJob) -> Iterator[Finding]:
    """Yield node labels that patches select instead of those for which Kueue charges its flavor."""
    for change in pod_template_overrides(job.spec):
        pod_set, template = job.pod_set(change.job), change.template.get("spec", {}).get("template", {})
        if pod_set is None or KUEUE_POD_SET_LABEL not in template.get("metadata", {}).get("labels", {}):
            continue
        selected = pod_set.pod.get("nodeSelector", {})
        for label, value in change.pod.get("nodeSelector", {}).items():
            if selected.get(label) != value:
                message = f'replicatedJob "{change.job}" selects {label}={selected.get(label)}, but Kueue admitted'
                fix = "select nodes in podTemplateOverrides, which Kueue reads"
                yield Finding("spec.runtimePatches", f"{message} it for {label}={value}", fix)


def _launcher_warnings(job: ResolvedJob) -> Iterator[Finding]:
    mpi, trainer = _policy(job.runtime).get("mpi"), job.spec.trainer
    if mpi is None or job.pod_set(LAUNCHER) is None or job.pod_set(CONTAINER_NODE) is None:
        return
    as_node = bool(mpi.get("runLauncherAsNode"))
    if as_node and (trainer.num_nodes if trainer and trainer.num_nodes else 1) == 1:
        yield Finding.warning(
            "spec.trainer.numNodes",
            "one node runs as two pods, launcher and node, because Kueue counts both",
            "use a runtime that needs no launcher for one node",
        )
    if not as_node and trainer is not None and trainer.resources_per_node:
        yield Finding.warning(
            "spec.trainer.resourcesPerNode",
            "is applied to the launcher, which does not train, because Kueue counts it there",
            "set the resources of the nodes in the runtime, or use one with runLauncherAsNode",
        )


def _nonzero(requests: ExactAmounts) -> ExactAmounts:
    return {name: amount for name, amount in requests.items() if amount}


def _listed(requests: ExactAmounts) -> str:
    amounts = (f"{name} {quantity.format(amount, name)}" for name, amount in sorted(_nonzero(requests).items()))
    return ", ".join(amounts) or "nothing"
