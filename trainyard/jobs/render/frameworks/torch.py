"""PyTorch: PET_* environment of torchrun."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import ceil
from typing import Annotated, Any, Final

from pydantic import Field

from trainyard.api import Body
from trainyard.api.constants import CONTAINER_NODE, JOB_COMPLETION_INDEX_FIELD, TRAINER_PORT
from trainyard.api.kubernetes_model import IntOrString, KubernetesModel
from trainyard.api.markers import Name, list_map, rules
from trainyard.api.shape_rule import ShapeRule
from trainyard.checks.finding import Finding
from trainyard.jobs.render.devices import cpu_count, gpu_count, node_resources
from trainyard.jobs.render.frameworks.base import Framework
from trainyard.jobs.render.frameworks.elastic import (
    ELASTIC_NODES,
    ELASTIC_RESERVED,
    ElasticPolicy,
    check_elastic,
    elastic_variables,
    elastic_warnings,
    set_elastic_counts,
    tolerate_pod_loss,
)
from trainyard.jobs.render.frameworks.torchtune import check_torchtune, is_torchtune, set_command, torchtune_warnings
from trainyard.jobs.render.hosts import host, subdomain
from trainyard.jobs.render.job_set_builder import JobSetBuilder
from trainyard.jobs.render.job_view import JobView
from trainyard.jobs.render.pod_editing import add_ports, field_ref_env, prepend_env
from trainyard.jobs.render.pod_set import PodSet
from trainyard.jobs.render.reserved_env import reserved_errors
from trainyard.jobs.render.resolution import Resolution
from trainyard.jobs.render.resolved_job import ResolvedJob

_NODES: Final = "PET_NNODES"
_PROCESSES: Final = "PET_NPROC_PER_NODE"
_NODE_RANK: Final = "PET_NODE_RANK"
_MASTER_ADDRESS: Final = "PET_MASTER_ADDR"
_MASTER_PORT: Final = "PET_MASTER_PORT"
RESERVED: Final = frozenset({_NODES, _PROCESSES, _NODE_RANK, _MASTER_ADDRESS, _MASTER_PORT})
"""Variables that a TrainJob may not set."""

_AUTO: Final = "auto"
_CPU: Final = "cpu"
_WORDS: Final = (_AUTO, _CPU, "gpu")
_PROCESSES_MESSAGE: Final = f"must have an int value or [{' '.join(_WORDS)}]"
_PROCESSES_FIX: Final = f"use a number from 1 or one of {', '.join(_WORDS)}"
_ALIAS_PREFIX: Final = "TRAINER_"


_NOT_NODE = ShapeRule(
    "!self.exists(c, c == 'node')",
    "containerNames must not include the main node container because PET_* envs are always injected into it",
    fix="name other containers",
    holds=lambda value: "node" not in value,
)
_TORCH_PROCESSES = ShapeRule(
    "type(self) == int ? self > 0 && self <= 2147483647 : self in ['auto', 'cpu', 'gpu']",
    "NumProcPerNode must be equal to auto, cpu, gpu, or int value",
    fix="use auto, cpu, gpu or a number of 1 or more",
    holds=lambda value: 0 < value < 2**31 if isinstance(value, int) else value in ("auto", "cpu", "gpu"),
)


class EnvInjectionTarget(KubernetesModel):
    """Additional containers of one replicatedJob that get the rendezvous variables."""

    job_name: Name
    """Name of the replicatedJob."""
    container_names: Annotated[
        list[Annotated[str, Field(max_length=63)]],
        Field(min_length=1, max_length=8, json_schema_extra={"x-kubernetes-list-type": "set", **rules(_NOT_NODE)}),
    ]
    """Names of containers or init containers."""


class EnvInjection(KubernetesModel):
    """Additional containers that get the rendezvous variables."""

    targets: Annotated[list[EnvInjectionTarget] | None, Field(max_length=16, json_schema_extra=list_map("jobName"))] = (
        None
    )
    """Containers by replicatedJob."""


class TorchPolicy(KubernetesModel):
    """PyTorch: environment of torchrun."""

    num_proc_per_node: Annotated[IntOrString | None, Field(json_schema_extra=rules(_TORCH_PROCESSES))] = None
    """Training processes per node: a number, auto, cpu or gpu; default: auto."""
    elastic_policy: ElasticPolicy | None = None
    """Elastic training."""
    env_injection: EnvInjection | None = None
    """Additional containers that get the variables."""


class Torch(Framework[TorchPolicy]):
    """torchrun, or torchtune, on every node."""

    name = "torch"
    order = 10
    catalog_runtime = "torch-distributed"
    summary = "PyTorch."
    policy_model = TorchPolicy
    rules = (ELASTIC_NODES,)
    variables = ("PET_*",)
    ranks = ("RANK", "NODE_RANK", "GROUP_RANK", _NODE_RANK)
    sizes = ("WORLD_SIZE", "NNODES", "GROUP_WORLD_SIZE", _NODES)
    one_process_a_device = True

    reserved = RESERVED

    def resolve(self, resolution: Resolution) -> None:
        """Set the number of pods of an elastic job."""
        policy = _elastic_policy(resolution)
        if policy is not None:
            set_elastic_counts(resolution, policy)

    def validate(self, job: ResolvedJob) -> Iterable[Finding]:
        """Yield reserved variables, missing injection targets, and findings of elastic training and torchtune."""
        yield from _missing_targets(job)
        yield from _process_findings(job)
        policy = _elastic_policy(job)
        if policy is not None:
            yield from check_elastic(job, policy)
            yield from elastic_warnings(policy)
        yield from reserved_errors(job, RESERVED if policy is None else RESERVED | ELASTIC_RESERVED)
        if is_torchtune(job):
            yield from check_torchtune(job, _requested_processes(job))
            yield from torchtune_warnings(job, processes(job))

    def build(self, builder: JobSetBuilder) -> Iterable[Body]:
        """Insert the variables at the front, so that later ones can refer to them."""
        policy = _elastic_policy(builder)
        trainer = builder.trainer
        first_node = host(builder, trainer) if trainer else f"{builder.name}-{CONTAINER_NODE}-0-0.{subdomain(builder)}"
        nodes, own_processes = _nodes(trainer), processes(builder)
        common: list[Body] = [{"name": _NODES, "value": nodes}, {"name": _PROCESSES, "value": own_processes}]
        if policy is None:
            common.append(field_ref_env(_NODE_RANK, JOB_COMPLETION_INDEX_FIELD))
            rendezvous = [
                {"name": _MASTER_ADDRESS, "value": first_node},
                {"name": _MASTER_PORT, "value": str(TRAINER_PORT)},
            ]
        else:
            rendezvous = list(elastic_variables(builder, policy, first_node))
            tolerate_pod_loss(builder, policy)
        aliases = {
            "TRAINER_NNODES": nodes,
            "TRAINER_NPROC_PER_NODE": own_processes,
            "TRAINER_NODE_0_HOSTNAME": first_node,
            "TRAINER_JOB_ID": builder.name,
        }
        container = trainer.main_container if trainer else None
        if container is not None:
            torchtune = is_torchtune(builder) and policy is None
            variables = common if torchtune else [*common, *rendezvous]
            prepend_env(container, [*variables, *_aliases(aliases, container, builder.spec.trainer)])
            add_ports(container)
        for target, name in _targets(builder):
            pod_set = builder.pod_set(target.job_name)
            injected = pod_set.container(name, init=True) if pod_set else None
            if injected is not None:
                prepend_env(injected, [*common, *rendezvous, *_aliases(aliases, injected)])
        if is_torchtune(builder):
            set_command(builder, own_processes, first_node)
        return ()


def processes(job: JobView) -> str:
    """Return the processes per node: a number, or a word if torchrun counts the devices.

    Precedence: TrainJob, runtime, ``auto``. Without GPUs, ``auto`` is the number of cores.
    """
    requested = _requested_processes(job)
    if requested in (_AUTO, _CPU):
        resources = node_resources(job)
        if requested == _CPU or not gpu_count(resources):
            return str(max(1, ceil(cpu_count(resources))))
    return requested


def _requested_processes(job: JobView) -> str:
    """Return the processes per node as the TrainJob, else the runtime, sets them; ``auto``: unset."""
    trainer, policy = job.spec.trainer, job.ml_policy.of(Torch)
    requested = trainer.num_proc_per_node if trainer else None
    if requested is None and policy:
        requested = policy.num_proc_per_node
    return _AUTO if requested is None else str(requested)


def _elastic_policy(job: JobView) -> ElasticPolicy | None:
    policy = job.ml_policy.of(Torch)
    return policy.elastic_policy if policy else None


def _process_findings(job: ResolvedJob) -> Iterator[Finding]:
    trainer, policy = job.spec.trainer, job.ml_policy.of(Torch)
    if trainer and not _are_processes(trainer.num_proc_per_node):
        yield Finding("spec.trainer.numProcPerNode", _PROCESSES_MESSAGE, _PROCESSES_FIX)
    if policy and not _are_processes(policy.num_proc_per_node):
        runtime = f'{job.runtime.kind} "{job.runtime.metadata.name}"'
        message = f"{runtime} spec.mlPolicy.torch.numProcPerNode: {_PROCESSES_MESSAGE}"
        yield Finding("spec.runtimeRef", message, _PROCESSES_FIX)


def _are_processes(value: int | str | None) -> bool:
    return value is None or (value >= 1 if isinstance(value, int) else value in _WORDS)


def _nodes(trainer: PodSet | None) -> str:
    """Return the number of nodes; a range if the job is elastic."""
    if trainer is None:
        return "1"
    return str(trainer.count) if trainer.min_count is None else f"{trainer.min_count}:{trainer.count}"


def _targets(job: JobView) -> Iterator[tuple[EnvInjectionTarget, str]]:
    policy = job.ml_policy.of(Torch)
    injection = policy.env_injection if policy else None
    for target in (injection.targets if injection else None) or ():
        for name in target.container_names:
            yield target, name


def _missing_targets(job: ResolvedJob) -> Iterator[Finding]:
    for target, name in _targets(job):
        pod_set = job.pod_set(target.job_name)
        if pod_set is None or pod_set.container(name, init=True) is None:
            yield Finding(
                "spec.runtimeRef",
                f'envInjection target podSet "{target.job_name}" container "{name}" not found in runtime template',
                "correct spec.mlPolicy.torch.envInjection of the runtime",
            )


def _aliases(values: dict[str, str], container: Body, trainer: Any = None) -> Iterator[Body]:
    """Yield aliases of the variables that a container refers to and does not set."""
    variables = [*container.get("env", ()), *((trainer.env if trainer else None) or ())]
    texts = [
        *container.get("command", ()),
        *container.get("args", ()),
        *((trainer.command if trainer else None) or ()),
        *((trainer.args if trainer else None) or ()),
        *(variable.get("value") or "" for variable in variables),
    ]
    texts = [text for text in texts if _ALIAS_PREFIX in text]
    if not texts:
        return
    own = {variable["name"] for variable in variables}
    for name, value in values.items():
        if name not in own and any(name in text for text in texts):
            yield {"name": name, "value": value}


FRAMEWORK: Final = Torch()
