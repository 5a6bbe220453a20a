"""Overrides of earlier API versions: podSpecOverrides (v2.0) and podTemplateOverrides (v2.1).

Those versions did not limit list lengths, so they are not limited here. Names must not be empty.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from trainyard.api.kubernetes_model import Body, EmbeddedMetadata, KubernetesModel
from trainyard.api.markers import atomic, embedded, list_map

_Name = Annotated[str, Field(min_length=1)]


class TargetJob(KubernetesModel):
    """A replicatedJob of the runtime."""

    name: _Name
    """Name of the replicatedJob."""


_Targets = Annotated[list[TargetJob], Field(json_schema_extra=atomic())]


class ContainerOverride(KubernetesModel):
    """Changes of one container of the runtime."""

    name: _Name
    """Name of the container in the runtime."""
    env: Annotated[list[Body] | None, Field(json_schema_extra=embedded("container.env"))] = None
    """Environment variables, merged by name."""
    volume_mounts: Annotated[
        list[Body] | None, Field(json_schema_extra=embedded("container.volumeMounts", **list_map("name")))
    ] = None
    """Volume mounts, merged by mount path."""


_Containers = Annotated[list[ContainerOverride], Field(json_schema_extra=list_map("name"))]


class PodSpecFields(KubernetesModel):
    """Pod fields that both kinds of overrides may change."""

    service_account_name: str | None = None
    """ServiceAccount of the pods."""
    node_selector: dict[str, str] | None = None
    """Required labels of nodes."""
    tolerations: Annotated[list[Body] | None, Field(json_schema_extra=embedded("pod.tolerations"))] = None
    """Tolerations; they replace the runtime's."""
    volumes: Annotated[list[Body] | None, Field(json_schema_extra=embedded("pod.volumes"))] = None
    """Volumes, merged by name."""
    init_containers: _Containers | None = None
    """Changes of init containers, by name."""
    containers: _Containers | None = None
    """Changes of containers, by name."""
    scheduling_gates: Annotated[list[Body] | None, Field(json_schema_extra=embedded("pod.schedulingGates"))] = None
    """Scheduling gates of the pods."""


class PodSpecOverride(PodSpecFields):
    """Changes of the pods of replicatedJobs (Trainer v2.0)."""

    target_jobs: _Targets
    """ReplicatedJobs to change."""


class PodTemplateSpecFields(PodSpecFields):
    """Pod fields that podTemplateOverrides may change."""

    affinity: Annotated[Body | None, Field(json_schema_extra=embedded("pod.affinity"))] = None
    """Affinity of the pods."""
    image_pull_secrets: Annotated[list[Body] | None, Field(json_schema_extra=embedded("pod.imagePullSecrets"))] = None
    """Image pull Secrets, merged by name."""


class PodTemplateOverride(KubernetesModel):
    """Changes of the pod templates of replicatedJobs (Trainer v2.1)."""

    target_jobs: _Targets
    """ReplicatedJobs to change."""
    metadata: EmbeddedMetadata | None = None
    """Labels and annotations of the pods."""
    spec: PodTemplateSpecFields | None = None
    """Changes of the pod specification."""
