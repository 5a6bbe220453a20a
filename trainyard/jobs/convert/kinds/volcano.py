"""Volcano Job."""

from __future__ import annotations

from typing import Final

from trainyard.api import Body
from trainyard.jobs.convert.draft import Draft
from trainyard.jobs.convert.gang_scheduling import (
    GANG_MESSAGE,
    read_min_available,
    read_priority,
    read_queue,
    read_schedulers,
    read_topology,
)
from trainyard.jobs.convert.kinds.volcano_partitions import read_partitions
from trainyard.jobs.convert.kinds.volcano_plugins import apply_plugins
from trainyard.jobs.convert.kinds.volcano_policies import apply_policies
from trainyard.jobs.convert.operator_labels import OperatorLabels, label_part
from trainyard.jobs.convert.part import Part
from trainyard.jobs.convert.run_policy import read_lifetime
from trainyard.jobs.render.pod_editing import copied, upsert_mount, upsert_volume

_TASKS: Final = "spec.tasks"
_READY: Final = "Ready"
_PREFIX: Final = "volcano.sh/"
_OF_THE_OLD_JOB: Final = ("job-forwarding", "job-retry-count", "job-version", "partition-id", "template-uid")
_NUMA_ANNOTATION: Final = "volcano.sh/numa-topology-policy"


def convert(draft: Draft) -> None:
    """Convert a Volcano Job to a draft."""
    source = draft.source
    for index in range(source.count(_TASKS)):
        _read_task(draft, index)
    if not draft.parts:
        raise source.malformed(_TASKS, "has no task with pods")
    names = [part.name for part in draft.parts]
    if len(set(names)) < len(names):
        raise source.malformed(_TASKS, f"has two tasks of one name: {', '.join(sorted(names))}")
    _order(draft)
    tasks = {part.name: part for part in draft.parts}
    apply_plugins(draft)
    apply_policies(draft, tasks)
    _read_volumes(draft)
    read_lifetime(draft, "spec.ttlSecondsAfterFinished")
    read_topology(draft, "spec.networkTopology")
    read_queue(draft, "spec.queue")
    read_schedulers(draft, "spec.schedulerName")
    read_partitions(draft)
    read_priority(draft, "spec.priorityClassName")
    if source.integer("spec.minAvailable") == 0:
        source.same("spec.minAvailable", GANG_MESSAGE)
    else:
        read_min_available(draft, "spec.minAvailable")
    _read_min_success(draft)
    source.lost("spec.runningEstimate", "the scheduler does not use the estimate", "set activeDeadlineSeconds")


def _read_task(draft: Draft, index: int) -> None:
    source = draft.source
    path = f"{_TASKS}[{index}]"
    name = source.text(f"{path}.name") or f"default{index}"
    replicas = source.integer(f"{path}.replicas")
    if replicas == 0:
        source.changed(path, "left out: it has no pods")
        return
    part = draft.read(f"{path}.template", name, replicas or 1)
    label_part(draft, part, _labels(draft, name))
    source.same(f"{path}.replicas", "number of pods")
    source.same(f"{path}.name", "name of the replicatedJob")
    least = source.integer(f"{path}.minAvailable")
    if least == part.pods:
        source.same(f"{path}.minAvailable", GANG_MESSAGE)
    else:
        fix = "use an elastic PyTorch runtime if it can start with fewer"
        source.changed(f"{path}.minAvailable", GANG_MESSAGE, fix)
    policy = source.text(f"{path}.topologyPolicy")
    if policy and policy != "none":
        annotations = part.template.setdefault("metadata", {}).setdefault("annotations", {})
        annotations.setdefault(_NUMA_ANNOTATION, policy)
    source.same(f"{path}.topologyPolicy", f"annotation {_NUMA_ANNOTATION} of the pods")


def _labels(draft: Draft, task: str) -> OperatorLabels:
    """Return the labels that Volcano's job controller sets on the pods of a task."""
    static = {
        "job-name": str(draft.source.peek("metadata.name")),
        "task-spec": task,
        "job-namespace": draft.namespace or "default",
    }
    if queue := draft.source.text("spec.queue"):
        static["queue-name"] = queue
    lost = tuple(f"{_PREFIX}{name}" for name in _OF_THE_OLD_JOB)
    return OperatorLabels(lost, {f"{_PREFIX}{key}": value for key, value in static.items()}, (f"{_PREFIX}task-index",))


def _order(draft: Draft) -> None:
    """Sort tasks after their dependencies, as JobSet requires."""
    source = draft.source
    by_name = {part.name: part for part in draft.parts}
    ordered: list[Part] = []
    pending: list[str] = []

    def place(part: Part) -> None:
        if part in ordered:
            return
        if part.name in pending:
            raise source.malformed(f"{part.role}.dependsOn", f"goes round in a circle: {' -> '.join(pending)}")
        pending.append(part.name)
        wanted = source.items(f"{part.role}.dependsOn.name", str)
        iteration = source.text(f"{part.role}.dependsOn.iteration")
        for name in wanted:
            if name not in by_name:
                raise source.malformed(f"{part.role}.dependsOn.name", f"has no task {name!r} with pods")
            place(by_name[name])
        if wanted:
            part.waits_for = tuple((name, _READY) for name in wanted)
            source.same(f"{part.role}.dependsOn.name", "dependsOn of the replicatedJob, until it is ready")
            if iteration == "any" and len(wanted) > 1:
                source.changed(f"{part.role}.dependsOn.iteration", "waits for all of them")
            else:
                source.same(f"{part.role}.dependsOn.iteration", "waits for all of them")
        pending.pop()
        ordered.append(part)

    for part in list(draft.parts):
        place(part)
    draft.parts[:] = ordered


def _read_volumes(draft: Draft) -> None:
    source = draft.source
    for index, entry in enumerate(source.items("spec.volumes")):
        path = f"spec.volumes[{index}]"
        folder = source.text(f"{path}.mountPath")
        if not folder:
            raise source.malformed(f"{path}.mountPath", "is missing")
        name, claim = source.text(f"{path}.volumeClaimName"), source.mapping(f"{path}.volumeClaim")
        volume = f"volume-{index}"
        for unknown in sorted(set(entry) - {"mountPath", "volumeClaimName", "volumeClaim"}):
            source.lost(f"{path}.{unknown}", "is not known here", "see whether the pods need it")
        if not name and not claim:
            _mount(draft, {"name": volume, "emptyDir": {}}, folder)
            source.changed(f"{path}.mountPath", "an empty volume of each pod")
            continue
        source.same(f"{path}.mountPath", "mounted in all containers")
        if name:
            _mount(draft, {"name": volume, "persistentVolumeClaim": {"claimName": name}}, folder)
            source.same(f"{path}.volumeClaimName", "volume of the pods")
        if name and claim:
            draft.objects.append(_claim(draft, name, claim))
            source.changed(f"{path}.volumeClaim", "a PersistentVolumeClaim that outlives the job", "delete it yourself")
        elif claim:
            template = {"metadata": {"name": volume}, "spec": copied(claim)}
            policies = draft.job_set.setdefault("volumeClaimPolicies", [{"templates": []}])
            policies[0]["templates"].append(template)
            _mount(draft, None, folder, volume)
            source.same(f"{path}.volumeClaim", "volumeClaimPolicies of the JobSet: deleted with it")


def _claim(draft: Draft, name: str, claim: Body) -> Body:
    metadata: Body = {"name": name}
    if draft.namespace is not None:
        metadata["namespace"] = draft.namespace
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": copied(claim)}


def _mount(draft: Draft, volume: Body | None, folder: str, name: str = "") -> None:
    for part in draft.parts:
        if volume is not None:
            upsert_volume(part.pod, volume)
        for container in part.pod["containers"]:
            upsert_mount(container, {"name": volume["name"] if volume else name, "mountPath": folder})


def _read_min_success(draft: Draft) -> None:
    source = draft.source
    least = source.integer("spec.minSuccess", 1)
    if least is None:
        return
    if len(draft.parts) == 1 and least <= draft.parts[0].pods:
        draft.parts[0].job["successPolicy"] = {"rules": [{"succeededCount": least}]}
        source.same("spec.minSuccess", "successPolicy of the Job")
    elif least == draft.pods:
        source.same("spec.minSuccess", "a JobSet succeeds when all its Jobs have")
    else:
        fix = "name the tasks that decide with a policy TaskCompleted, or use one task"
        source.lost("spec.minSuccess", "counted over several tasks: the job succeeds when all have", fix)


CONVERTERS: Final = {("batch.volcano.sh/v1alpha1", "Job"): convert}
