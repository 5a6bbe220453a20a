"""Training runtimes: the template, framework and gang policy that a platform team publishes."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from trainyard.api.base import Body, EmbeddedMetadata, Int32, KubernetesModel, ObjectMeta
from trainyard.api.constants import API_VERSION
from trainyard.api.markers import Name, embedded, list_map, rules
from trainyard.api.rules import FRAMEWORK_EXCLUSIVE, GANG_EXCLUSIVE, ShapeRule

__all__ = [
    "ClusterTrainingRuntime",
    "CoschedulingPolicy",
    "EnvInjection",
    "EnvInjectionTarget",
    "FluxPolicy",
    "JaxPolicy",
    "JobSetTemplate",
    "MLPolicy",
    "MpiPolicy",
    "NetworkTopology",
    "PodGroupPolicy",
    "Runtime",
    "RuntimeSpec",
    "TorchPolicy",
    "TrainingRuntime",
    "VolcanoPolicy",
    "XgboostPolicy",
]

_NOT_NODE = ShapeRule(
    "!self.exists(c, c == 'node')",
    "containerNames must not include the main node container because PET_* envs are always injected into it",
)
_FLUX_PROCESSES = ShapeRule("self >= 1", "NumProcPerNode in fluxPolicy must be >= 1")


class EnvInjectionTarget(KubernetesModel):
    """Containers of one replicatedJob that get the rendezvous variables too."""

    job_name: Name
    """Name of the replicatedJob."""
    container_names: Annotated[
        list[Annotated[str, Field(max_length=63)]],
        Field(min_length=1, max_length=8, json_schema_extra={"x-kubernetes-list-type": "set", **rules(_NOT_NODE)}),
    ]
    """Names of containers or init containers."""


class EnvInjection(KubernetesModel):
    """Further containers that get the rendezvous variables."""

    targets: Annotated[list[EnvInjectionTarget] | None, Field(max_length=16, json_schema_extra=list_map("jobName"))] = (
        None
    )
    """Where to inject, by replicatedJob."""


class TorchPolicy(KubernetesModel):
    """PyTorch: the environment torchrun reads."""

    env_injection: EnvInjection | None = None
    """Further containers that get the variables."""


class MpiPolicy(KubernetesModel):
    """MPI: host file, keys and launcher."""

    num_proc_per_node: Annotated[Int32, Field(ge=1)] = 1
    """Processes (slots) on one node."""
    mpi_implementation: Literal["OpenMPI", ""] = "OpenMPI"
    """The MPI implementation."""
    ssh_auth_mount_path: Annotated[str, Field(max_length=4096, alias="sshAuthMountPath")] = "/root/.ssh"
    """Where the keys are mounted."""
    run_launcher_as_node: bool = False
    """Whether the launcher trains too."""


class JaxPolicy(KubernetesModel):
    """JAX: the environment of its distributed runtime."""


class XgboostPolicy(KubernetesModel):
    """XGBoost: the environment of its tracker."""


class FluxPolicy(KubernetesModel):
    """Flux: a scheduler inside the job."""

    num_proc_per_node: Annotated[Int32, Field(json_schema_extra=rules(_FLUX_PROCESSES))] = 1
    """Processes on one node."""


class MLPolicy(KubernetesModel):
    """The framework and the number of nodes."""

    model_config = ConfigDict(json_schema_extra=rules(FRAMEWORK_EXCLUSIVE))

    num_nodes: Annotated[Int32, Field(ge=1)] | None = None
    """Number of training nodes when the TrainJob names none; 1 when absent."""
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


class CoschedulingPolicy(KubernetesModel):
    """The coscheduling plug-in of the default scheduler."""

    schedule_timeout_seconds: Int32 = 60
    """Seconds a gang may wait for its last member."""


class NetworkTopology(KubernetesModel):
    """How close to each other the members of a gang must be."""

    mode: Literal["hard", "soft"] = "hard"
    """hard: wait for a fitting domain; soft: prefer it."""
    highest_tier_allowed: Annotated[int, Field(ge=0)] = 1
    """Highest tier of the fabric the gang may span."""


class VolcanoPolicy(KubernetesModel):
    """The Volcano scheduler."""

    network_topology: NetworkTopology | None = None
    """Placement in the fabric."""


class PodGroupPolicy(KubernetesModel):
    """The gang scheduler."""

    model_config = ConfigDict(json_schema_extra=rules(GANG_EXCLUSIVE))

    coscheduling: CoschedulingPolicy | None = None
    """The coscheduling plug-in."""
    volcano: VolcanoPolicy | None = None
    """Volcano."""


class JobSetTemplate(KubernetesModel):
    """The JobSet a TrainJob becomes."""

    model_config = ConfigDict(json_schema_extra={"minProperties": 1})

    metadata: EmbeddedMetadata | None = None
    """Labels and annotations of the JobSet."""
    spec: Annotated[Body | None, Field(json_schema_extra=embedded("spec"))] = None
    """Specification of the JobSet."""


class RuntimeSpec(KubernetesModel):
    """What a runtime provides."""

    model_config = ConfigDict(json_schema_extra={"minProperties": 1})

    ml_policy: Annotated[MLPolicy | None, Field(alias="mlPolicy")] = None
    """The framework."""
    pod_group_policy: PodGroupPolicy | None = None
    """The gang scheduler."""
    template: JobSetTemplate | None = None
    """The JobSet."""


class TrainingRuntime(KubernetesModel):
    """A runtime of one namespace."""

    api_version: Literal["trainer.kubeflow.org/v1alpha1"] = API_VERSION
    kind: Literal["TrainingRuntime"] = "TrainingRuntime"
    metadata: ObjectMeta = ObjectMeta()
    spec: RuntimeSpec | None = None
    """What the runtime provides."""


class ClusterTrainingRuntime(KubernetesModel):
    """A runtime for every namespace."""

    api_version: Literal["trainer.kubeflow.org/v1alpha1"] = API_VERSION
    kind: Literal["ClusterTrainingRuntime"] = "ClusterTrainingRuntime"
    metadata: ObjectMeta = ObjectMeta()
    spec: RuntimeSpec | None = None
    """What the runtime provides."""


Runtime = TrainingRuntime | ClusterTrainingRuntime
"""A runtime of either scope."""
