"""Differences in what is accepted."""

from __future__ import annotations

from collections.abc import Callable

from tests.compatibility.differences.difference import Area, Difference
from tests.compatibility.scene import DENIED, FAILED, MADE, REJECTED, Scene


def _refused_here(*texts: str, path: str = "") -> Callable[[Scene], bool]:
    """Tell whether we alone refuse it, at a path and with one of some texts."""

    def holds(scene: Scene) -> bool:
        if scene.their_outcome == DENIED or scene.my_outcome != REJECTED:
            return False
        return path in ("", *scene.my_paths) and any(text in scene.my_message for text in texts)

    return holds


def _accepted_here(*texts: str) -> Callable[[Scene], bool]:
    """Tell whether upstream alone refuses it, with one of some texts."""

    def holds(scene: Scene) -> bool:
        runtime = scene.theirs.runtime.message if scene.theirs.runtime else ""
        refused = scene.their_outcome in (DENIED, FAILED) and scene.my_outcome == MADE
        return refused and any(text in scene.their_message + runtime for text in texts)

    return holds


def _other_paths(scene: Scene) -> bool:
    named = {"spec.RuntimeRef": "spec.runtimeRef"}
    theirs = {named.get(path, path) for path in scene.their_paths}
    unnamed = "unsupported runtime" in scene.their_message or "metadata.name must" in scene.their_message
    both = scene.their_outcome == DENIED and scene.my_outcome == REJECTED
    return both and (theirs == scene.my_paths or (not theirs and unnamed))


def _too_many_nodes(scene: Scene) -> bool:
    texts = "must be 1 for", "LoRA fine-tuning is not supported"
    by_runtime = scene.policy.get("numNodes", 1) > 1 and "numNodes" not in scene.trainer
    return by_runtime and scene.my_outcome == REJECTED and any(text in scene.my_message for text in texts)


def _validated_update(scene: Scene) -> bool:
    return scene.case.runtime is not None and scene.case.runtime["kind"] == "TrainingRuntime"


ADMISSION: tuple[Difference, ...] = (
    Difference(
        "paths",
        Area.ADMISSION,
        "Field paths in messages",
        "`spec.RuntimeRef` for a ClusterTrainingRuntime; none for unsupported runtimes and for names",
        "`spec.runtimeRef`, `metadata.name`",
        "programs that read the path find the field",
        verdict=_other_paths,
    ),
    Difference(
        "lower-bounds",
        Area.ADMISSION,
        "`numNodes` and `numProcPerNode` of zero or less",
        "accepted; zero nodes complete at once without pods",
        "rejected",
        "the job would train nothing (#3809)",
        verdict=_refused_here("greater than or equal to 1", "must be 1 or more"),
    ),
    Difference(
        "name-length",
        Area.ADMISSION,
        "A name that is too long for JobSet",
        "accepted; JobSet rejects it later, reported by an event only",
        "rejected, with the maximum length",
        "the user sees the error at once",
        verdict=_refused_here("leaves room for", path="metadata.name"),
    ),
    Difference(
        "patch-targets",
        Area.ADMISSION,
        "A patch of a replicatedJob, container or init container that the runtime lacks",
        "upstream validates the merged template, so validation passes and the apply fails later",
        "rejected, with the existing names",
        "intended by upstream's validation",
        verdict=_refused_here("that doesn't exist in the runtime job"),
        update=lambda scene, number: all("that doesn't exist" in entry.message for entry in scene.mine.updates[number]),
    ),
    Difference(
        "too-many-pods",
        Area.ADMISSION,
        "More than 100,000 pods in a replicatedJob",
        "accepted; Kubernetes rejects the Job after the controller wrote a host file of all names",
        "rejected",
        "a number in a TrainJob must not exhaust the controller's memory",
        verdict=_refused_here("Kubernetes runs at most"),
    ),
    Difference(
        "unknown-scheme",
        Area.ADMISSION,
        "`storageUri` of a scheme that upstream's initializer image does not support (`gs://`, `pvc://`)",
        "accepted; the step fails in its pod",
        "rejected, with the supported schemes; other images are not restricted",
        "the user sees the error at once",
        verdict=_refused_here("does not fetch"),
    ),
    Difference(
        "unmounted-initializer",
        Area.ADMISSION,
        "Initializer container without a mount named `initializer`",
        "rejected",
        "accepted with a warning",
        "v2.2 accepted it, and data can be passed in other ways; upstream's rule rejects its own cache runtime",
        verdict=_accepted_here("must have volumeMount with name - initializer"),
    ),
    Difference(
        "queue-name",
        Area.ADMISSION,
        "Volcano queue annotation with an invalid queue name",
        "the PodGroup cannot be created, reported by an event only",
        "rejected",
        "the user sees the error at once",
        verdict=_refused_here("is not a Volcano queue name"),
    ),
    Difference(
        "priority-classes",
        Area.ADMISSION,
        "PriorityClass that does not exist, after one named `system-…`",
        "not validated",
        "rejected",
        "intended by upstream's validation",
        verdict=_refused_here("PriorityClass "),
    ),
    Difference(
        "two-gangs",
        Area.ADMISSION,
        "Two gang policies in one runtime",
        "two PodGroups",
        "rejected",
        "neither scheduler would schedule the gang",
        verdict=_refused_here("Only one gang scheduler"),
    ),
    Difference(
        "launcher-container",
        Area.ADMISSION,
        "MPI launcher whose container is named `launcher`",
        "rejected: it must be named `node`",
        "accepted",
        "the name describes the container",
        verdict=_accepted_here("must contain the required container for the ancestor: trainer"),
    ),
    Difference(
        "mpi-implementations",
        Area.ADMISSION,
        "`mpiImplementation` Intel, MPICH and empty",
        "Intel and MPICH rejected; empty accepted, and the job fails later",
        "Intel and MPICH rendered; empty means OpenMPI",
        "requested upstream (#1807)",
        verdict=_accepted_here("mpiImplementation: Unsupported value", "MPI implementation for"),
    ),
    Difference(
        "torchtune-nodes",
        Area.ADMISSION,
        "torchtune on more nodes than the model or LoRA supports, where the runtime sets the number",
        "only the TrainJob's number is validated; LoRA silently becomes full fine-tuning",
        "rejected",
        "the job would run a different training than requested",
        verdict=_too_many_nodes,
    ),
    Difference(
        "empty-template",
        Area.ADMISSION,
        "Runtime without replicatedJobs",
        "an empty JobSet, which completes at once",
        "its TrainJobs are rejected",
        "the job would train nothing",
        verdict=_refused_here("replicatedJobs: is empty"),
    ),
    Difference(
        "depends-on",
        Area.ADMISSION,
        "`dependsOn` of a replicatedJob that is missing or comes later",
        "JobSet rejects every job",
        "the runtime is rejected",
        "the author sees the error, not each user",
        verdict=_refused_here("is not a replicatedJob that comes before"),
    ),
    Difference(
        "runtime-update",
        Area.ADMISSION,
        "Update of a TrainingRuntime",
        "not validated",
        "validated; errors that existed before are ignored",
        "an update can break a runtime as well as a create",
        runtime_update=_validated_update,
    ),
)
