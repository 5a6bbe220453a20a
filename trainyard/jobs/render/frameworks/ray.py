"""Ray: a cluster with the lifetime of the job; the TrainJob's command is the driver.

The names of replicatedJobs determine the roles:

- ``node`` alone: pod 0 is the head and runs the driver, the others are workers; numNodes counts all of them.
- ``node`` and another one labeled as the trainer (``launcher``): the latter is the head and runs the driver.
- ``head`` and ``node``, which is labeled as the trainer: the head runs the driver.
- ``head``, ``node`` and another one labeled as the trainer: the labeled one runs the command unchanged, to
  submit to the head.

With a separate head, numNodes and resourcesPerNode apply to the workers. A container that starts Ray itself (its
command contains ``ray start``) is not modified, nor is a worker with a command.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil
from typing import Final

from trainyard.api import Body
from trainyard.api.constants import CONTAINER_NODE, TRAINER
from trainyard.api.kubernetes_model import KubernetesModel
from trainyard.checks.finding import Finding
from trainyard.jobs.render.devices import counted_resources, cpu_count, gpu_count
from trainyard.jobs.render.frameworks.base import Framework
from trainyard.jobs.render.frameworks.ray_scripts import HEAD, NODE, WORKER
from trainyard.jobs.render.frameworks.roles import (
    number_workers,
    restore_resources,
    role_container,
    set_image_and_env,
    succeed_with,
    take_command,
)
from trainyard.jobs.render.hosts import host
from trainyard.jobs.render.job_set_builder import JobSetBuilder
from trainyard.jobs.render.job_view import JobView
from trainyard.jobs.render.pod_editing import add_ports, prepend_env, section, upsert_mount, upsert_volume
from trainyard.jobs.render.pod_set import PodSet
from trainyard.jobs.render.reserved_env import reserved_errors
from trainyard.jobs.render.resolution import Resolution
from trainyard.jobs.render.resolved_job import ResolvedJob

_ADDRESS: Final = "RAY_ADDRESS"
_API_ADDRESS: Final = "RAY_API_SERVER_ADDRESS"
_HEAD_HOST: Final = "RAY_HEAD_HOST"
_NODES: Final = "RAY_NODE_COUNT"
PORT: Final = 6379
DASHBOARD_PORT: Final = 8265
CLIENT_PORT: Final = 10001

_HEAD: Final = "head"
_START: Final = "ray start"
_BASH: Final = ("/bin/bash", "-c")
_NAME: Final = "ray"
_MEMORY_VOLUME: Final = "ray-shared-memory"
_MEMORY_PATH: Final = "/dev/shm"  # noqa: S108


@dataclass(frozen=True)
class _Layout:
    """Roles in the cluster.

    Parameters
    ----------
    head
        Pod set whose first pod is the head.
    workers
        Pod set of the workers; the pod set of the head, if there is no other.
    driver
        Pod set that runs the TrainJob's command.
    """

    head: PodSet
    workers: PodSet
    driver: PodSet

    @property
    def single_pod_set(self) -> bool:
        """Whether head and workers are pods of one replicatedJob."""
        return self.head is self.workers

    @property
    def submits(self) -> bool:
        """Whether the driver is not a Ray node and only submits to the head."""
        return self.driver is not self.head and self.driver is not self.workers

    @property
    def nodes(self) -> int:
        """Number of Ray nodes."""
        return self.workers.pods if self.single_pod_set else self.workers.pods + 1


class RayPolicy(KubernetesModel):
    """Ray: a cluster of head and workers with the lifetime of the job."""


class Ray(Framework[RayPolicy]):
    """A Ray cluster."""

    name = "ray"
    order = 80
    summary = "Ray."
    policy_model = RayPolicy
    added = "a Ray cluster with the lifetime of the job"
    variables = (_ADDRESS, _API_ADDRESS, _HEAD_HOST, _NODES)

    reserved = frozenset({_ADDRESS, _API_ADDRESS, _HEAD_HOST, _NODES})

    def resolve(self, resolution: Resolution) -> None:
        """Apply numNodes to the workers if the head is a separate replicatedJob."""
        layout = _layout(resolution)
        if layout is None:
            return
        number_workers(resolution, layout.workers)
        trainer = resolution.trainer
        if trainer is not None and trainer.name != layout.workers.name:
            restore_resources(resolution, trainer)
        if not layout.single_pod_set:
            resolution.set_count(layout.head.name, 1)

    def validate(self, job: ResolvedJob) -> Iterable[Finding]:
        """Yield reserved variables, and more than one head."""
        yield from reserved_errors(job, self.reserved)
        layout = _layout(job)
        if layout is not None and layout.head.replicas > 1:
            yield Finding(
                "spec.runtimeRef",
                f'replicatedJob "{layout.head.name}" has {layout.head.replicas} replicas, but a cluster has one head',
                "remove replicas",
            )

    def build(self, builder: JobSetBuilder) -> Iterable[Body]:
        """Start Ray in the pods, and the driver after all of them have joined."""
        layout = _layout(builder)
        if layout is None:
            return ()
        _start_head(builder, layout)
        if not layout.single_pod_set:
            _start_worker(builder, layout)
        for pod_set in (layout.head, layout.workers)[: 1 if layout.single_pod_set else 2]:
            container = role_container(pod_set)
            if container is not None:
                if pod_set is not builder.trainer:
                    set_image_and_env(builder, container)
                prepend_env(container, _variables(builder, layout))
                _mount_shared_memory(pod_set, container)
        if layout.submits:
            container = role_container(layout.driver)
            if container is not None:
                prepend_env(container, _variables(builder, layout, is_node=False))
        _complete_with_driver(builder, layout)
        return ()


def _layout(job: JobView) -> _Layout | None:
    trainer = job.trainer
    if trainer is None or trainer.main_container is None:
        return None
    head = job.pod_set(_HEAD) or trainer
    workers = job.pod_set(CONTAINER_NODE) or head
    return _Layout(head, workers, driver=head if trainer is workers else trainer)


def _start_head(builder: JobSetBuilder, layout: _Layout) -> None:
    container = role_container(layout.head)
    if container is None:
        return
    add_ports(container, PORT, DASHBOARD_PORT, CLIENT_PORT)
    if layout.submits:
        command = [*container.get("command", ()), *container.get("args", ())]
    else:
        command = take_command(builder, container)
    container.pop("args", None)
    if _START in " ".join(command):
        container["command"] = command
        return
    script = NODE if layout.single_pod_set and layout.nodes > 1 else HEAD
    container["command"] = [*_BASH, _with_options(script, _counted(builder, layout.head, layout)), _NAME]
    if command:
        container["args"] = command


def _start_worker(builder: JobSetBuilder, layout: _Layout) -> None:
    container = role_container(layout.workers)
    if container is None:
        return
    if not (container.get("command") or container.get("args")):
        resources = _counted(builder, layout.workers, layout)
        container["command"] = [*_BASH, _with_options(WORKER, resources), _NAME]


def _counted(builder: JobSetBuilder, pod_set: PodSet, layout: _Layout) -> Body:
    """Return the resources of a Ray node for counting; the TrainJob's numbers take precedence where it has them."""
    container, trainer = role_container(pod_set), builder.spec.trainer
    merged: Body = (container or {}).get("resources") or {}
    trains = pod_set is layout.workers or (pod_set.ancestor == TRAINER and pod_set is not builder.trainer)
    return counted_resources(merged, trainer.resources_per_node if trains and trainer else None)


def _with_options(script: str, resources: Body) -> str:
    """Insert port and options into a script; Ray does not detect the container's share of cores and GPUs."""
    cores, gpus = ceil(cpu_count(resources)), ceil(gpu_count(resources))
    options = [f"--num-cpus={cores}"] if cores > 0 else []
    if gpus > 0:
        options.append(f"--num-gpus={gpus}")
    return script.replace("@PORT@", str(PORT)).replace("@OPTIONS@", " ".join(options))


def _variables(job: JobView, layout: _Layout, *, is_node: bool = True) -> list[Body]:
    name = host(job, layout.head)
    api = f"http://{name}:{DASHBOARD_PORT}"
    return [
        {"name": _HEAD_HOST, "value": name},
        {"name": _ADDRESS, "value": f"{name}:{PORT}" if is_node else api},
        {"name": _API_ADDRESS, "value": api},
        {"name": _NODES, "value": str(layout.nodes)},
    ]


def _mount_shared_memory(pod_set: PodSet, container: Body) -> None:
    """Mount shared memory for Ray's object store, which spills to disk with a container's default of 64 MiB."""
    if any(mount.get("mountPath") == _MEMORY_PATH for mount in container.get("volumeMounts", ())):
        return
    upsert_volume(pod_set.pod, {"name": _MEMORY_VOLUME, "emptyDir": {"medium": "Memory"}})
    upsert_mount(container, {"name": _MEMORY_VOLUME, "mountPath": _MEMORY_PATH})


def _complete_with_driver(builder: JobSetBuilder, layout: _Layout) -> None:
    """Complete the job with its driver: the other pods never complete."""
    if layout.nodes > 1 and layout.single_pod_set:
        rules = {"rules": [{"succeededIndexes": "0"}]}
        section(layout.head.job, "template", "spec").setdefault("successPolicy", rules)
    elif layout.driver is not layout.workers:
        succeed_with(builder, layout.driver)


FRAMEWORK: Final = Ray()
