"""Differences in what is accepted."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator

from tests.compatibility import ours
from tests.compatibility.compared_case import DENIED, FAILED, MADE, REJECTED, Scene, containers, parallelism, pod
from tests.compatibility.corpus.case import ANCESTOR, QUEUE, Body
from tests.compatibility.differences.difference import Difference
from trainyard.api import Runtime
from trainyard.api.constants import WEBHOOK_VALIDATION_LABEL
from trainyard.api.structural import schema_violations
from trainyard.checks.finding import Finding
from trainyard.errors import TrainyardError
from trainyard.jobs.render.jobset_rules import template_errors
from trainyard.jobs.render.runtime_admission import runtime_errors
from trainyard.jobs.render.shape import JOB_SET_SPEC
from trainyard.jobs.render.template import template_of

_LABEL = 63
_QUEUE_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_MOST_PODS = 100_000


def _rejected_here(*texts: str, path: str = "", holds: Callable[[Scene], bool]) -> Callable[[Scene, Finding], bool]:
    """Tell whether an error is ours alone: its path, one of some texts, and what the row says about the case."""

    def explains(scene: Scene, error: Finding) -> bool:
        return path in ("", error.path) and any(text in str(error) for text in texts) and holds(scene)

    return explains


def _below_one(scene: Scene) -> bool:
    counts = (scene.trainer.get("numNodes"), scene.trainer.get("numProcPerNode"), *_policy_counts(scene))
    return any(isinstance(count, int) and count < 1 for count in counts)


def _policy_counts(scene: Scene) -> Iterator[object]:
    yield scene.policy.get("numNodes")
    for framework in scene.policy.values():
        if isinstance(framework, dict):
            yield framework.get("numProcPerNode")


def _name_too_long(scene: Scene) -> bool:
    """Tell whether a pod name of upstream's JobSet, or a name of its volume claims, has more than 63 characters."""
    if f"JobSet/{scene.job_name}" not in scene.objects:
        return False
    for job in scene.jobs:
        spec = job["template"]["spec"]
        last = int(spec.get("completions", parallelism(job))) - 1
        if len(f"{scene.job_name}-{job['name']}-{int(job.get('replicas', 1)) - 1}-{last}-abcde") > _LABEL:
            return True
    return False


def _unknown_target(scene: Scene) -> bool:
    """Tell whether a patch names a replicatedJob or a container that the runtime lacks."""
    known = {job["name"]: {entry["name"] for entry in containers(job)} for job in scene.runtime_jobs}
    for change in scene.spec.get("runtimePatches") or ():
        spec = ((change.get("trainingRuntimeSpec") or {}).get("template") or {}).get("spec") or {}
        for job in spec.get("replicatedJobs", ()):
            inside = ((job.get("template") or {}).get("spec") or {}).get("template") or {}
            if job["name"] not in known or not _names(inside.get("spec") or {}) <= known[job["name"]]:
                return True
    return False


def _names(pod_spec: Body) -> set[str]:
    return {entry["name"] for kind in ("containers", "initContainers") for entry in pod_spec.get(kind, ())}


def _patched_step(scene: Scene) -> bool:
    """Tell whether a patch sets the label of an ancestor step."""
    return ANCESTOR in json.dumps(scene.spec.get("runtimePatches") or [])


def _rewritten(scene: Scene, number: int) -> bool:
    """Tell whether upstream rejects the change of a field that the update does not name."""
    verdict, named = scene.theirs.updates[number], scene.case.updates[number].patch.get("spec", {})
    immutable = re.findall(r"spec\.(trainer|initializer): Invalid value: [^,]*field is immutable", verdict.message)
    return any(field not in named for field in immutable)


def _many_pods(scene: Scene) -> bool:
    counts = [scene.trainer.get("numNodes") or 0, scene.policy.get("numNodes") or 0]
    counts += [parallelism(job) * int(job.get("replicas", 1)) for job in scene.runtime_jobs]
    return max(counts) > _MOST_PODS


def _unsupported_scheme(scene: Scene) -> bool:
    sources = (scene.spec.get("initializer") or {}).values()
    uris = [str((source or {}).get("storageUri") or "") for source in sources]
    return any(uri and uri.partition("://")[0] not in ("hf", "s3", "cache") for uri in uris)


def _unknown_class(scene: Scene) -> bool:
    classes = {pod(job)["spec"].get("priorityClassName", "") for job in scene.runtime_jobs}
    return any(name and name != ours.PRIORITY_CLASS["metadata"]["name"] for name in classes)


def _invalid_queue(scene: Scene) -> bool:
    return any(not _QUEUE_NAME.fullmatch(name) for name in _queues([scene.runtime_spec, scene.spec]))


def _queues(value: object) -> Iterator[str]:
    """Yield the queues of all annotations in a value."""
    if isinstance(value, dict):
        yield from (str(inner) for name, inner in value.items() if name == QUEUE)
        for inner in value.values():
            yield from _queues(inner)
    elif isinstance(value, list):
        for item in value:
            yield from _queues(item)


def _late_dependency(scene: Scene) -> bool:
    names = [job["name"] for job in scene.runtime_jobs]
    return any(
        entry["name"] not in names[:index]
        for index, job in enumerate(scene.runtime_jobs)
        for entry in job.get("dependsOn", ())
    )


def _accepted_here(*texts: str) -> Callable[[Scene], bool]:
    """Tell whether upstream alone refuses it, with one of some texts."""

    def holds(scene: Scene) -> bool:
        runtime = scene.theirs.runtime.message if scene.theirs.runtime else ""
        refused = scene.their_outcome in (DENIED, FAILED) and scene.my_outcome == MADE
        return refused and any(text in scene.their_message + runtime for text in texts)

    return holds


def _named(paths: frozenset[str]) -> frozenset[str]:
    """Return upstream's paths as we name them."""
    return frozenset("spec.runtimeRef" if path == "spec.RuntimeRef" else path for path in paths)


def _other_paths(scene: Scene) -> bool:
    theirs = _named(scene.their_paths)
    unnamed = "unsupported runtime" in scene.their_message or "metadata.name must" in scene.their_message
    both = scene.their_outcome == DENIED and scene.my_outcome == REJECTED
    return both and (theirs == scene.my_paths or (not theirs and unnamed))


def _some_paths(scene: Scene) -> bool:
    """Tell whether one side names some of the fields that the other names."""
    theirs, mine = _named(scene.their_paths), scene.my_paths
    both = scene.their_outcome == DENIED and scene.my_outcome == REJECTED
    return both and bool(theirs) and bool(mine) and (theirs < mine or mine < theirs)


def _too_many_nodes(scene: Scene) -> bool:
    texts = "must be 1 for", "LoRA fine-tuning is not supported"
    by_runtime = scene.policy.get("numNodes", 1) > 1 and "numNodes" not in scene.trainer
    return by_runtime and scene.my_outcome == REJECTED and any(text in scene.my_message for text in texts)


def _validated_update(scene: Scene) -> bool:
    return scene.case.runtime is not None and scene.case.runtime["kind"] == "TrainingRuntime"


def _runtime(scene: Scene) -> Runtime | None:
    """Return the runtime, if there is one and it fits its schema."""
    try:
        return ours.parsed(scene.case.runtime) if scene.case.runtime else None
    except TrainyardError:
        return None


def _unvalidated_runtime(scene: Scene) -> bool:
    """Tell whether only the errors of a runtime whose label disables the validation reject the TrainJob."""
    body = scene.case.runtime
    disabled = body is not None and body["metadata"].get("labels", {}).get(WEBHOOK_VALIDATION_LABEL) == "disabled"
    if body is None or not disabled or scene.mine.runtime or scene.my_outcome != REJECTED:
        return False
    runtime = _runtime(scene)
    expected = [f"{error.path}: {error.message}" for error in (runtime_errors(runtime) if runtime else ())]
    return bool(expected) and all(any(text in error.message for text in expected) for error in scene.mine.errors)


def _rejected_by_jobset(scene: Scene) -> bool:
    """Tell whether we reject the runtime for rules of JobSet's webhook, and for nothing else."""
    if scene.case.runtime is None or scene.theirs.runtime is None or not scene.theirs.runtime.allowed:
        return False
    runtime = _runtime(scene)
    if runtime is None or any(schema_violations(template_of(runtime).spec, JOB_SET_SPEC, "")):
        return False
    expected = set(template_errors(template_of(runtime).spec, "spec.template.spec"))
    return bool(expected) and set(scene.mine.runtime) == expected


ADMISSION: tuple[Difference, ...] = (
    Difference(
        "paths",
        "Field paths in messages",
        "`spec.RuntimeRef` for a ClusterTrainingRuntime; none for unsupported runtimes and for names",
        "`spec.runtimeRef`, `metadata.name`",
        "programs that read the path find the field",
        verdict=_other_paths,
    ),
    Difference(
        "stages",
        "Several errors in one TrainJob",
        "those of the schema alone; without one, all of the webhook",
        "those of the schema together with the webhook's; the references of patches are validated before the rest",
        "fewer attempts; a reference to nothing makes further errors meaningless",
        verdict=_some_paths,
    ),
    Difference(
        "lower-bounds",
        "`numNodes` and `numProcPerNode` of zero or less",
        "accepted; zero nodes complete at once without pods",
        "rejected",
        "the job would train nothing (#3809)",
        finding=_rejected_here(
            "greater than or equal to 1", "must be 1 or more", "must have an int value", holds=_below_one
        ),
    ),
    Difference(
        "fixed-ranks",
        "`JAX_PROCESS_ID` with one value for several pods, or `JAX_NUM_PROCESSES` that is no multiple of the pods",
        "accepted",
        "rejected unless the TrainJob also sets `JAX_COORDINATOR_ADDRESS`",
        "the processes would have the same rank, or wait for others that do not exist",
        finding=_rejected_here("is the same in all", "but the job has", holds=lambda scene: "jax" in scene.policy),
    ),
    Difference(
        "name-length",
        "A name that is too long for JobSet",
        "accepted; JobSet rejects it later, reported by an event only",
        "rejected, with the maximum length",
        "the user sees the error at once",
        finding=_rejected_here("leaves room for", path="metadata.name", holds=_name_too_long),
    ),
    Difference(
        "patch-targets",
        "A patch of a replicatedJob, container or init container that the runtime lacks",
        "upstream validates the merged template, so validation passes and the apply fails later",
        "rejected, with the existing names",
        "intended by upstream's validation",
        finding=_rejected_here("that doesn't exist in the runtime job", holds=_unknown_target),
        update=lambda scene, number: all("that doesn't exist" in entry.message for entry in scene.mine.updates[number]),
    ),
    Difference(
        "patched-step",
        "A patch that makes a replicatedJob an ancestor step without the step's container or with several replicas",
        "accepted; no container gets what the TrainJob sets",
        "rejected",
        "the job would ignore what the user wrote",
        finding=_rejected_here(
            "must contain the required container", "always must be 1", path="spec.runtimePatches", holds=_patched_step
        ),
    ),
    Difference(
        "rewritten",
        "New patch in a TrainJob with quantities or empty values that Go's types write differently (`1.5Gi`, `[]`)",
        "the defaulting webhook rewrites the whole object, so that `spec.trainer` counts as changed: rejected",
        "only the changes of the update count",
        "the job could not be patched",
        update=_rewritten,
    ),
    Difference(
        "too-many-pods",
        "More than 100,000 pods in a replicatedJob",
        "accepted; Kubernetes rejects the Job after the controller wrote a host file of all names",
        "rejected",
        "a number in a TrainJob must not exhaust the controller's memory",
        finding=_rejected_here("Kubernetes runs at most", holds=_many_pods),
    ),
    Difference(
        "unknown-scheme",
        "`storageUri` of a scheme that upstream's initializer image does not support (`gs://`, `pvc://`)",
        "accepted; the step fails in its pod",
        "rejected, with the supported schemes; other images are not restricted",
        "the user sees the error at once",
        finding=_rejected_here("does not fetch", holds=_unsupported_scheme),
    ),
    Difference(
        "unmounted-initializer",
        "Initializer container without a mount named `initializer`",
        "rejected",
        "accepted with a warning",
        "v2.2 accepted it, and data can be passed in other ways; upstream's rule rejects its own cache runtime",
        verdict=_accepted_here("must have volumeMount with name - initializer"),
    ),
    Difference(
        "queue-name",
        "Volcano queue annotation with an invalid queue name",
        "the PodGroup cannot be created, reported by an event only",
        "rejected",
        "the user sees the error at once",
        finding=_rejected_here("is not a Volcano queue name", holds=_invalid_queue),
    ),
    Difference(
        "priority-classes",
        "PriorityClass that does not exist, after one named `system-…`",
        "not validated",
        "rejected",
        "intended by upstream's validation",
        finding=_rejected_here("PriorityClass ", holds=_unknown_class),
    ),
    Difference(
        "two-gangs",
        "Two gang policies in one runtime",
        "two PodGroups",
        "rejected",
        "neither scheduler would schedule the gang",
        finding=_rejected_here(
            "Only one gang scheduler", holds=lambda scene: len(scene.runtime_spec.get("podGroupPolicy", {})) > 1
        ),
    ),
    Difference(
        "launcher-container",
        "MPI launcher whose container is named `launcher`",
        "rejected: it must be named `node`",
        "accepted",
        "the name describes the container",
        verdict=_accepted_here("must contain the required container for the ancestor: trainer"),
    ),
    Difference(
        "mpi-implementations",
        "`mpiImplementation` Intel, MPICH and empty",
        "Intel and MPICH rejected; empty accepted, and the job fails later",
        "Intel and MPICH rendered; empty means OpenMPI",
        "requested upstream (#1807)",
        verdict=_accepted_here("mpiImplementation: Unsupported value", "MPI implementation for"),
    ),
    Difference(
        "torchtune-nodes",
        "torchtune on more nodes than the model or LoRA supports, where the runtime sets the number",
        "only the TrainJob's number is validated; LoRA silently becomes full fine-tuning",
        "rejected",
        "the job would run a different training than requested",
        verdict=_too_many_nodes,
    ),
    Difference(
        "empty-template",
        "Runtime without replicatedJobs",
        "an empty JobSet, which completes at once",
        "its TrainJobs are rejected",
        "the job would train nothing",
        finding=_rejected_here("replicatedJobs: is empty", holds=lambda scene: not scene.runtime_jobs),
    ),
    Difference(
        "depends-on",
        "`dependsOn` of a replicatedJob that is missing or comes later",
        "JobSet rejects every job",
        "the runtime is rejected",
        "the author sees the error, not each user",
        finding=_rejected_here("is not a replicatedJob that comes before", holds=_late_dependency),
    ),
    Difference(
        "jobset-rules",
        "Template that JobSet's webhook rejects (subdomain, `groupName`, `managedBy`, coordinator, names and targets "
        "of success and failure policy)",
        "accepted; JobSet rejects every job, reported by an event only",
        "the runtime is rejected",
        "the author sees the error, not each user",
        verdict=_rejected_by_jobset,
    ),
    Difference(
        "webhook-disabled",
        "Invalid runtime with label `trainer.kubeflow.org/webhook-validation: disabled`",
        "accepted; its jobs run as far as they can",
        "accepted with warnings; rules and schema still apply, and its jobs are rejected with the runtime's errors",
        "the label defers the validation of the runtime; a job that cannot run as written is not started",
        verdict=_unvalidated_runtime,
    ),
    Difference(
        "runtime-update",
        "Update of a TrainingRuntime",
        "not validated",
        "validated; errors that existed before are ignored",
        "an update can break a runtime as well as a create",
        runtime_update=_validated_update,
    ),
)
