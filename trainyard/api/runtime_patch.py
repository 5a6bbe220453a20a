"""Runtime patches: changes of a runtime's template by a TrainJob, with their managers."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from trainyard.api.kubernetes_model import Body, EmbeddedMetadata, Int64, KubernetesModel, Timestamp
from trainyard.api.markers import EnvList, Name, embedded, list_map, rules
from trainyard.api.shape_rule import IMMUTABLE


class ContainerPatch(KubernetesModel):
    """Changes of one container of the runtime."""

    name: Name
    """Name of the container in the runtime."""
    env: EnvList | None = None
    """Environment variables, merged by name."""
    volume_mounts: Annotated[
        list[Body] | None,
        Field(max_length=128, json_schema_extra=embedded("container.volumeMounts", **list_map("name"))),
    ] = None
    """Volume mounts, merged by mount path."""
    security_context: Annotated[Body | None, Field(json_schema_extra=embedded("container.securityContext"))] = None
    """Security settings of the container."""


_Containers = Annotated[list[ContainerPatch], Field(max_length=64, json_schema_extra=list_map("name", immutable=True))]


class PodSpecPatch(KubernetesModel):
    """Changes of a pod specification."""

    service_account_name: Annotated[str | None, Field(max_length=253, json_schema_extra=rules(IMMUTABLE))] = None
    """ServiceAccount of the pods."""
    termination_grace_period_seconds: Annotated[
        Annotated[Int64, Field(ge=0)] | None, Field(json_schema_extra=rules(IMMUTABLE))
    ] = None
    """Seconds between SIGTERM and SIGKILL."""
    volumes: Annotated[
        list[Body] | None, Field(max_length=128, json_schema_extra=embedded("pod.volumes", immutable=True))
    ] = None
    """Volumes, merged by name."""
    init_containers: _Containers | None = None
    """Changes of init containers, by name."""
    containers: _Containers | None = None
    """Changes of containers, by name."""
    image_pull_secrets: Annotated[
        list[Body] | None, Field(max_length=64, json_schema_extra=embedded("pod.imagePullSecrets", immutable=True))
    ] = None
    """Image pull Secrets, merged by name."""
    security_context: Annotated[
        Body | None, Field(json_schema_extra=embedded("pod.securityContext", immutable=True))
    ] = None
    """Security settings of the pods."""
    node_selector: dict[str, str] | None = None
    """Required labels of nodes."""
    affinity: Annotated[Body | None, Field(json_schema_extra=embedded("pod.affinity"))] = None
    """Affinity of the pods."""
    tolerations: Annotated[list[Body] | None, Field(max_length=128, json_schema_extra=embedded("pod.tolerations"))] = (
        None
    )
    """Tolerations; they replace the runtime's."""
    scheduling_gates: Annotated[
        list[Body] | None, Field(max_length=16, json_schema_extra=embedded("pod.schedulingGates"))
    ] = None
    """Scheduling gates of the pods."""


class PodTemplatePatch(KubernetesModel):
    """Changes of a pod template."""

    metadata: EmbeddedMetadata | None = None
    """Labels and annotations of the pods."""
    spec: PodSpecPatch | None = None
    """Changes of the pod specification."""


class JobSpecPatch(KubernetesModel):
    """Changes of a Job specification."""

    template: PodTemplatePatch | None = None
    """Changes of the pod template."""


class JobTemplatePatch(KubernetesModel):
    """Changes of a Job template."""

    metadata: EmbeddedMetadata | None = None
    """Labels and annotations of the Jobs."""
    spec: JobSpecPatch | None = None
    """Changes of the Job specification."""


class ReplicatedJobPatch(KubernetesModel):
    """Changes of one replicatedJob of the runtime."""

    name: Name
    """Name of the replicatedJob in the runtime."""
    template: JobTemplatePatch | None = None
    """Changes of the Job template."""


class JobSetSpecPatch(KubernetesModel):
    """Changes of a JobSet specification."""

    replicated_jobs: Annotated[
        list[ReplicatedJobPatch] | None, Field(max_length=100, json_schema_extra=list_map("name"))
    ] = None
    """Changes of replicatedJobs, by name."""


class JobSetTemplatePatch(KubernetesModel):
    """Changes of a runtime's template."""

    metadata: EmbeddedMetadata | None = None
    """Labels and annotations of the JobSet."""
    spec: JobSetSpecPatch | None = None
    """Changes of the JobSet specification."""


class TrainingRuntimeSpecPatch(KubernetesModel):
    """Changes of a runtime's specification."""

    template: JobSetTemplatePatch | None = None
    """Changes of the template."""


class RuntimePatch(KubernetesModel):
    """Changes of the runtime by one manager for this TrainJob; later entries take precedence."""

    manager: Annotated[Name, Field(json_schema_extra=rules(IMMUTABLE))]
    """Manager of the patch, a domain-prefixed path such as ``acme.io/team``."""
    time: Timestamp | None = None
    """When the patch last changed; set on admission."""
    training_runtime_spec: TrainingRuntimeSpecPatch | None = None
    """The changes."""
