"""Jobs with several roles: participating containers, node counts, and the success policy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from trainyard.api import Body
from trainyard.api.constants import CONTAINER_NODE, JOB_COMPLETION_INDEX_FIELD, JOB_INDEX_LABEL
from trainyard.checks.finding import Finding
from trainyard.jobs.render.job_set_builder import JobSetBuilder
from trainyard.jobs.render.merge import merge_resources
from trainyard.jobs.render.pod_editing import copied, field_ref_env, upsert_env
from trainyard.jobs.render.pod_set import PodSet
from trainyard.jobs.render.resolution import Resolution

_JOB_INDEX_FIELD: Final = f"metadata.labels['{JOB_INDEX_LABEL}']"


def role_container(pod_set: PodSet) -> Body | None:
    """Return the container that participates in training.

    Precedence: the training container of the TrainJob, ``node``, the name of the replicatedJob, the first container.
    """
    containers: list[Body] = pod_set.pod.get("containers", [])
    named = pod_set.main_container or pod_set.container(CONTAINER_NODE) or pod_set.container(pod_set.name)
    return named or next(iter(containers), None)


def named_port(container: Body, name: str, default: int) -> int:
    """Return a container's port number by name, or the default if it is not declared."""
    return next((port["containerPort"] for port in container.get("ports", ()) if port.get("name") == name), default)


def index_variable(name: str, pod_set: PodSet) -> Body:
    """Return a variable with the index of the pod in its replicatedJob."""
    return field_ref_env(name, _JOB_INDEX_FIELD if pod_set.replicas > 1 else JOB_COMPLETION_INDEX_FIELD)


def check_indexes(pod_set: PodSet) -> Iterator[Finding]:
    """Yield a replicatedJob with several Jobs of several pods: no pod field contains an index that is unique in it."""
    if pod_set.replicas > 1 and pod_set.count > 1:
        yield Finding(
            "spec.runtimeRef",
            f'replicatedJob "{pod_set.name}" has {pod_set.replicas} replicas of {pod_set.count} pods',
            "use one replica, and parallelism for the number of pods",
        )


def number_workers(resolution: Resolution, workers: PodSet) -> None:
    """Apply numNodes and resourcesPerNode to the workers if another replicatedJob is labeled as the trainer.

    The labeled one has a single pod. If neither TrainJob nor runtime set numNodes, the workers keep their parallelism.
    """
    labeled = resolution.trainer
    if labeled is None or labeled.name == workers.name:
        return
    trainer = resolution.spec.trainer
    requested = trainer.num_nodes if trainer else None
    nodes = resolution.ml_policy.num_nodes if requested is None else requested
    if nodes is not None:
        resolution.set_count(workers.name, nodes)
    resolution.set_count(labeled.name, 1)
    container = role_container(workers)
    if container is not None and trainer is not None and trainer.resources_per_node is not None:
        resources = merge_resources(container.get("resources", {}), copied(trainer.resources_per_node))
        resolution.set_resources(workers.name, container["name"], resources)


def restore_resources(resolution: Resolution, pod_set: PodSet) -> None:
    """Restore the resources of the runtime in a pod that is not a training node."""
    container = pod_set.main_container
    if container is not None:
        resources = resolution.runtime_resources(pod_set.name, container["name"])
        resolution.set_resources(pod_set.name, container["name"], resources)


def set_image_and_env(builder: JobSetBuilder, container: Body) -> None:
    """Set image and variables of the TrainJob in a container."""
    trainer = builder.spec.trainer
    if trainer is None:
        return
    if trainer.image is not None:
        container["image"] = trainer.image
    upsert_env(container, trainer.env or ())


def share_program(builder: JobSetBuilder, pod_set: PodSet) -> None:
    """Set the TrainJob's program in the container ``node`` of another role; other containers keep their own."""
    container = pod_set.container(CONTAINER_NODE)
    trainer = builder.spec.trainer
    if trainer is None or container is None or pod_set is builder.trainer:
        return
    set_image_and_env(builder, container)
    if trainer.command is not None:
        container["command"] = list(trainer.command)
    if trainer.args is not None:
        container["args"] = list(trainer.args)


def take_command(builder: JobSetBuilder, container: Body) -> list[str]:
    """Return command and arguments of the training container, for a framework that starts the program itself.

    They are removed from the builder, and are not applied later.

    Parameters
    ----------
    container
        The training container; its own command is kept until the framework replaces it.
    """
    command = container.get("command", ()) if builder.command is None else builder.command
    arguments = container.get("args", ()) if builder.args is None else builder.args
    builder.command = builder.args = None
    return [*command, *arguments]


def succeed_with(builder: JobSetBuilder, pod_set: PodSet) -> None:
    """Complete the JobSet with one replicatedJob, as others never complete, unless the runtime has a successPolicy."""
    policy = {"operator": "All", "targetReplicatedJobs": [pod_set.name]}
    builder.job_set_spec.setdefault("successPolicy", policy)
