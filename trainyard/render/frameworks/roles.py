"""Jobs of several roles: participating containers, the role that runs the trainer, and the success policy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from trainyard.api import Body
from trainyard.api.constants import CONTAINER_NODE, JOB_COMPLETION_INDEX_FIELD
from trainyard.checks.finding import Finding
from trainyard.render.merge import merge_resources
from trainyard.render.pod_editing import copied, field_ref_env, upsert_env
from trainyard.render.pod_set import PodSet
from trainyard.render.template import template_of
from trainyard.render.working_state import Plan

__all__ = [
    "check_indexes",
    "index_variable",
    "named_port",
    "number_workers",
    "restore_resources",
    "role_container",
    "share_program",
    "share_surroundings",
    "succeed_with",
    "take_command",
]

_JOB_INDEX_FIELD: Final = "metadata.labels['jobset.sigs.k8s.io/job-index']"


def role_container(pod_set: PodSet) -> Body | None:
    """Return the container that takes part in training.

    It is the TrainJob's, else the one named ``node`` or like the replicatedJob, else the first.
    """
    containers: list[Body] = pod_set.pod.get("containers", [])
    named = pod_set.main_container or pod_set.container(CONTAINER_NODE) or pod_set.container(pod_set.name)
    return named or next(iter(containers), None)


def named_port(container: Body, name: str, default: int) -> int:
    """Return the number of a container's port by its name, or the default where it declares none of that name."""
    return next((port["containerPort"] for port in container.get("ports", ()) if port.get("name") == name), default)


def index_variable(name: str, pod_set: PodSet) -> Body:
    """Return a variable that holds the index of a pod among all pods of its replicatedJob."""
    many_jobs = pod_set.replicas > 1
    return field_ref_env(name, _JOB_INDEX_FIELD if many_jobs else JOB_COMPLETION_INDEX_FIELD)


def check_indexes(pod_set: PodSet) -> Iterator[Finding]:
    """Yield a replicatedJob of several Jobs with several pods each: no field of a pod holds its index among all."""
    if pod_set.replicas > 1 and pod_set.count > 1:
        yield Finding(
            "spec.runtimeRef",
            f'replicatedJob "{pod_set.name}" has {pod_set.replicas} replicas of {pod_set.count} pods',
            "use one replica, and parallelism for the number of pods",
        )


def number_workers(plan: Plan, workers: PodSet) -> None:
    """Let numNodes and resourcesPerNode speak of the workers where another replicatedJob is the labelled trainer.

    That one has a single pod. With numNodes in neither TrainJob nor runtime, the workers' own parallelism stays.
    """
    labelled = plan.trainer
    if labelled is None or labelled is workers:
        return
    trainer = plan.spec.trainer
    asked = trainer.num_nodes if trainer else None
    nodes = plan.ml_policy.num_nodes if asked is None else asked
    if nodes is not None:
        workers.count = nodes
    labelled.count = 1
    container = role_container(workers)
    if container is not None and trainer is not None and trainer.resources_per_node is not None:
        container["resources"] = merge_resources(container.get("resources", {}), copied(trainer.resources_per_node))


def restore_resources(plan: Plan, pod_set: PodSet) -> None:
    """Give a pod that is no training node the resources of its runtime back."""
    container = pod_set.main_container
    job = next((job for job in template_of(plan.runtime).jobs if job["name"] == pod_set.name), None)
    if container is None or job is None:
        return
    original = PodSet(copied(job), 1).container(container["name"])
    container.pop("resources", None)
    if original is not None and "resources" in original:
        container["resources"] = original["resources"]


def share_surroundings(plan: Plan, container: Body) -> None:
    """Give a container the TrainJob's image and variables."""
    trainer = plan.spec.trainer
    if trainer is None:
        return
    if trainer.image is not None:
        container["image"] = trainer.image
    upsert_env(container, trainer.env or ())


def share_program(plan: Plan, pod_set: PodSet) -> None:
    """Let a container named ``node`` of another role run the TrainJob's program; one of another name keeps its own."""
    container = pod_set.container(CONTAINER_NODE)
    trainer = plan.spec.trainer
    if trainer is None or container is None or pod_set is plan.trainer:
        return
    share_surroundings(plan, container)
    if trainer.command is not None:
        container["command"] = list(trainer.command)
    if trainer.args is not None:
        container["args"] = list(trainer.args)


def take_command(plan: Plan, container: Body) -> list[str]:
    """Return the program of the training container with its arguments, for a framework that starts it itself.

    The TrainJob's command and arguments no longer apply afterwards.

    Parameters
    ----------
    container
        The training container; it keeps what the runtime says until the framework replaces it.
    """
    trainer = plan.spec.trainer
    command, arguments = container.get("command", ()), container.get("args", ())
    if trainer is not None:
        command = command if trainer.command is None else trainer.command
        arguments = arguments if trainer.args is None else trainer.args
        without = trainer.model_copy(update={"command": None, "args": None})
        plan.spec = plan.spec.model_copy(update={"trainer": without})
    return [*command, *arguments]


def succeed_with(plan: Plan, pod_set: PodSet) -> None:
    """Let the job succeed with one replicatedJob, as others serve until they are ended, unless the runtime decides."""
    policy = {"operator": "All", "targetReplicatedJobs": [pod_set.name]}
    plan.job_set_spec.setdefault("successPolicy", policy)
