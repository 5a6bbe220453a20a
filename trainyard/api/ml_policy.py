"""Machine learning policies: framework and number of nodes of a runtime."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from trainyard.api.base import Body, Int32, IntOrString, KubernetesModel
from trainyard.api.markers import Name, atomic, list_map, rules
from trainyard.api.rules import ELASTIC_NODES, ELASTIC_RANGE, FRAMEWORK_EXCLUSIVE, ShapeRule

__all__ = [
    "ElasticPolicy",
    "EnvInjection",
    "EnvInjectionTarget",
    "FluxPolicy",
    "HorovodPolicy",
    "JaxPolicy",
    "MLPolicy",
    "MpiPolicy",
    "PaddlePolicy",
    "RayPolicy",
    "TensorflowPolicy",
    "TorchPolicy",
    "XgboostPolicy",
]

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
_FLUX_PROCESSES = ShapeRule(
    "self >= 1",
    "NumProcPerNode in fluxPolicy must be >= 1",
    fix="use 1 or more",
    holds=lambda value: bool(value >= 1),
)

_MountPath = Annotated[str, Field(min_length=1, max_length=4096, alias="sshAuthMountPath")]


_METRIC: dict[str, Any] = {
    "properties": {"type": {"description": "Kind of metric.", "type": "string", "minLength": 1}},
    "required": ["type"],
    "x-kubernetes-preserve-unknown-fields": True,
}


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


class ElasticPolicy(KubernetesModel):
    """Elastic training: torchrun starts with the minimum number of nodes and adds nodes as they join."""

    model_config = ConfigDict(json_schema_extra=rules(ELASTIC_RANGE))

    max_restarts: Annotated[Int32, Field(ge=0)] | None = None
    """Maximum restarts of the workers before the job fails."""
    min_nodes: Annotated[Int32, Field(ge=1)] | None = None
    """Minimum number of training nodes; default: 1."""
    max_nodes: Annotated[Int32, Field(ge=1)] | None = None
    """Maximum number of training nodes."""
    metrics: Annotated[
        list[Annotated[Body, Field(json_schema_extra=_METRIC)]] | None,
        Field(json_schema_extra=atomic()),
    ] = None
    """Metrics of an autoscaler (autoscaling/v2 MetricSpec), preserved unchanged."""


class TorchPolicy(KubernetesModel):
    """PyTorch: environment of torchrun."""

    num_proc_per_node: Annotated[IntOrString | None, Field(json_schema_extra=rules(_TORCH_PROCESSES))] = None
    """Training processes per node: a number, auto, cpu or gpu; default: auto."""
    elastic_policy: ElasticPolicy | None = None
    """Elastic training."""
    env_injection: EnvInjection | None = None
    """Additional containers that get the variables."""


class MpiPolicy(KubernetesModel):
    """MPI: host file, keys and launcher."""

    num_proc_per_node: Annotated[Int32, Field(ge=1)] = 1
    """Processes (slots) on one node."""
    mpi_implementation: Literal["OpenMPI", "Intel", "MPICH", ""] = "OpenMPI"
    """The MPI implementation."""
    ssh_auth_mount_path: _MountPath = "/root/.ssh"
    """Where the keys are mounted."""
    run_launcher_as_node: bool = False
    """Whether the launcher trains too."""


class JaxPolicy(KubernetesModel):
    """JAX: environment of its distributed runtime."""


class XgboostPolicy(KubernetesModel):
    """XGBoost: environment of its tracker."""


class FluxPolicy(KubernetesModel):
    """Flux: a scheduler inside the job."""

    num_proc_per_node: Annotated[Int32, Field(json_schema_extra=rules(_FLUX_PROCESSES))] = 1
    """Processes per node."""


class TensorflowPolicy(KubernetesModel):
    """TensorFlow: TF_CONFIG with a role per replicatedJob."""


class PaddlePolicy(KubernetesModel):
    """PaddlePaddle: environment of its launcher, for collective or parameter-server training."""

    num_proc_per_node: Annotated[Int32, Field(ge=1)] | None = None
    """Training processes per node; default: the number of accelerators, or 1."""


class RayPolicy(KubernetesModel):
    """Ray: a cluster of head and workers with the lifetime of the job."""


class HorovodPolicy(KubernetesModel):
    """Horovod: host file, keys and launcher."""

    num_proc_per_node: Annotated[Int32, Field(ge=1)] = 1
    """Processes (slots) on one node."""
    ssh_auth_mount_path: _MountPath = "/root/.ssh"
    """Where the keys are mounted."""
    run_launcher_as_node: bool = False
    """Whether the launcher trains too."""


class MLPolicy(KubernetesModel):
    """Framework and number of nodes."""

    model_config = ConfigDict(json_schema_extra=rules(FRAMEWORK_EXCLUSIVE, ELASTIC_NODES))

    num_nodes: Annotated[Int32, Field(ge=1)] | None = None
    """Number of training nodes, unless the TrainJob sets it; default: 1."""
    torch: TorchPolicy | None = None
    """PyTorch."""
    mpi: MpiPolicy | None = None
    """MPI."""
    jax: JaxPolicy | None = None
    """JAX."""
    xgboost: XgboostPolicy | None = None
    """XGBoost."""
    flux: FluxPolicy | None = None
    """Flux."""
    tensorflow: TensorflowPolicy | None = None
    """TensorFlow."""
    paddle: PaddlePolicy | None = None
    """PaddlePaddle."""
    ray: RayPolicy | None = None
    """Ray."""
    horovod: HorovodPolicy | None = None
    """Horovod."""
