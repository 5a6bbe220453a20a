"""TensorFlow: TF_CONFIG with the addresses of all tasks and the index of the task.

The names of replicatedJobs determine the roles: ``chief`` (or ``master``), ``worker``, ``ps`` and ``evaluator``;
``node``, and a trainer with another name, are workers. An evaluator gets the addresses but is not a member.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from trainyard.api import Body
from trainyard.api.constants import CONTAINER_NODE
from trainyard.api.kubernetes_model import KubernetesModel
from trainyard.checks.finding import Finding
from trainyard.jobs.render.frameworks.base import Framework
from trainyard.jobs.render.frameworks.roles import (
    check_indexes,
    index_variable,
    named_port,
    number_workers,
    restore_resources,
    role_container,
    share_program,
    succeed_with,
)
from trainyard.jobs.render.hosts import MOST_VARIABLE_BYTES, hosts, size_error, size_of_hosts
from trainyard.jobs.render.job_set_builder import JobSetBuilder
from trainyard.jobs.render.job_view import JobView
from trainyard.jobs.render.pod_editing import add_ports, prepend_env
from trainyard.jobs.render.pod_set import PodSet
from trainyard.jobs.render.reserved_env import reserved_errors
from trainyard.jobs.render.resolution import Resolution
from trainyard.jobs.render.resolved_job import ResolvedJob

_CONFIG: Final = "TF_CONFIG"
_INDEX: Final = "TF_TASK_INDEX"
_PORT: Final = 2222
_PORT_NAME: Final = "tfjob-port"

_WORKER: Final = "worker"
_EVALUATOR: Final = "evaluator"
_COORDINATORS: Final = ("chief", "master")
_SERVER: Final = "ps"
_CLUSTER: Final = (*_COORDINATORS, _WORKER, _SERVER)
_ROLES: Final = {**{role: role for role in (*_CLUSTER, _EVALUATOR)}, CONTAINER_NODE: _WORKER}


@dataclass(frozen=True)
class _Role:
    """A replicatedJob with its role.

    Parameters
    ----------
    name
        Role name in TF_CONFIG.
    container
        The container that runs TensorFlow.
    """

    name: str
    pod_set: PodSet
    container: Body

    @property
    def port(self) -> int:
        """Port of the TensorFlow server: declared in the runtime, otherwise the default."""
        return named_port(self.container, _PORT_NAME, _PORT)


class TensorflowPolicy(KubernetesModel):
    """TensorFlow: TF_CONFIG with a role per replicatedJob."""


class Tensorflow(Framework[TensorflowPolicy]):
    """A TensorFlow cluster: mirrored workers, or workers with parameter servers."""

    name = "tensorflow"
    order = 60
    catalog_runtime = "tensorflow"
    summary = "TensorFlow."
    policy_model = TensorflowPolicy
    added = "TensorFlow requires TF_CONFIG"
    variables = (_CONFIG, _INDEX)
    ranks = (_CONFIG, _INDEX)

    reserved = frozenset({_CONFIG, _INDEX})

    def resolve(self, resolution: Resolution) -> None:
        """Apply numNodes to the workers, regardless of which role is labeled as the trainer.

        With parameter servers, a chief only coordinates and does not get the accelerators of a worker.
        """
        roles = {role.name: role for role in _roles(resolution)}
        if _WORKER in roles:
            number_workers(resolution, roles[_WORKER].pod_set)
        coordinator = next((roles[name].pod_set for name in _COORDINATORS if name in roles), None)
        trainer = resolution.trainer
        if {_WORKER, _SERVER} <= roles.keys() and coordinator and trainer and coordinator.name == trainer.name:
            restore_resources(resolution, coordinator)

    def validate(self, job: ResolvedJob) -> Iterable[Finding]:
        """Yield reserved variables, duplicate roles, and pods without a unique index."""
        yield from reserved_errors(job, self.reserved)
        roles = _roles(job)
        taken = Counter("chief" if role.name in _COORDINATORS else role.name for role in roles)
        for name in sorted(name for name, times in taken.items() if times > 1):
            yield Finding(
                "spec.runtimeRef",
                f"{taken[name]} replicatedJobs have the TensorFlow role {name}",
                "keep one: chief and master have the same role, as do worker and node",
            )
        for role in roles:
            yield from check_indexes(role.pod_set)
        members = [role.pod_set for role in roles if role.name in _CLUSTER]
        size = sum(size_of_hosts(job, pod_set, separators=len('":65535",')) for pod_set in members)
        yield from size_error(job, _CONFIG, size, MOST_VARIABLE_BYTES)

    def build(self, builder: JobSetBuilder) -> Iterable[Body]:
        """Set TF_CONFIG of each task; a single task has none, since TensorFlow then trains locally."""
        roles = _roles(builder)
        if sum(role.pod_set.pods for role in roles) <= 1:
            return ()
        cluster = {
            role.name: [f"{name}:{role.port}" for name in hosts(builder, role.pod_set)]
            for role in sorted(roles, key=lambda role: _order(role.name))
            if role.name in _CLUSTER
        }
        for role in roles:
            share_program(builder, role.pod_set)
            config = {"cluster": cluster, "task": {"type": role.name, "index": 0}}
            text = json.dumps(config, separators=(",", ":"))
            value = text.removesuffix("0}}") + f"$({_INDEX})}}}}"
            prepend_env(role.container, [index_variable(_INDEX, role.pod_set), {"name": _CONFIG, "value": value}])
            if role.name in _CLUSTER:
                add_ports(role.container, role.port)
        if any(role.name not in (_WORKER, *_COORDINATORS) for role in roles):
            deciding = next((role for role in roles if role.name in _COORDINATORS), None) or next(
                (role for role in roles if role.name == _WORKER), None
            )
            if deciding is not None:
                succeed_with(builder, deciding.pod_set)
        return ()


def _roles(job: JobView) -> list[_Role]:
    trainer = job.trainer
    found = []
    for pod_set in job.pod_sets:
        name = _ROLES.get(pod_set.name, _WORKER if pod_set is trainer else None)
        container = role_container(pod_set)
        if name is not None and container is not None:
            found.append(_Role(name, pod_set, container))
    return found


def _order(role: str) -> int:
    return _CLUSTER.index(role) if role in _CLUSTER else len(_CLUSTER)


FRAMEWORK: Final = Tensorflow()
