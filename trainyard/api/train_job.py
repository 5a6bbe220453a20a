"""The TrainJob: what a data scientist submits."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from trainyard.api.base import (
    Body,
    Condition,
    Int32,
    Int64,
    IntOrString,
    KubernetesModel,
    LocalObjectReference,
    ObjectMeta,
    Timestamp,
)
from trainyard.api.constants import API_VERSION, CLUSTER_TRAINING_RUNTIME, GROUP, MANAGED_BY_TRAINER, MULTIKUEUE
from trainyard.api.markers import EnvList, Image, LongTexts, Name, atomic, embedded, list_map, rules
from trainyard.api.overrides import PodSpecOverride, PodTemplateOverride
from trainyard.api.rules import IMMUTABLE, ShapeRule
from trainyard.api.runtime_patch import RuntimePatch

__all__ = [
    "Initializer",
    "InitializerSource",
    "JobSetRecord",
    "JobStatus",
    "Metric",
    "RuntimeRef",
    "TrainJob",
    "TrainJobSpec",
    "TrainJobStatus",
    "Trainer",
    "TrainerStatus",
]

_URI_PATTERN = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*://.+\Z")
_LABEL_PATTERN = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_MANAGERS = (MANAGED_BY_TRAINER, MULTIKUEUE)
_MANAGED_BY = ShapeRule(
    f"self in [{', '.join(repr(name) for name in _MANAGERS)}]",
    f"ManagedBy must be {' or '.join(_MANAGERS)} if set",
    fix="use one of them",
    holds=lambda value: value in _MANAGERS,
)
_URI = ShapeRule(
    "self == '' || self.matches('^[A-Za-z][A-Za-z0-9+.-]*://.+$')",
    "storageUri may be empty, or it must be a valid URI (scheme://...)",
    fix="write it with its scheme, such as hf://user/dataset",
    holds=lambda value: value == "" or _URI_PATTERN.search(value) is not None,
)
_NAME_LABEL = ShapeRule(
    "self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",
    "metadata.name must match RFC 1035 DNS label format",
    fix="use lower case letters, digits and dashes, beginning with a letter",
    holds=lambda value: _LABEL_PATTERN.fullmatch(_name(value)) is not None,
)
_NAME_LENGTH = ShapeRule(
    "size(self.metadata.name) <= 63",
    "metadata.name must be no more than 63 characters",
    fix="shorten the name",
    holds=lambda value: len(_name(value)) <= 63,
)
_PROCESSES = ShapeRule(
    "type(self) == int && self >= 1 && self <= 2147483647",
    "numProcPerNode must be 1 or more; auto, cpu and gpu are replaced by a number on admission, "
    "but not for MPI, which must have an int value, and gpu not where a node has no GPUs",
    fix="write a number of 1 or more",
    holds=lambda value: isinstance(value, int) and 1 <= value < 2**31,
)
_REPORTED = ShapeRule(
    "has(self.lastUpdatedTime)",
    "lastUpdatedTime is required when trainerStatus is present",
    fix="add it",
    holds=lambda value: "lastUpdatedTime" in value,
)


def _name(train_job: Any) -> str:
    return str(train_job.get("metadata", {}).get("name", ""))


class RuntimeRef(KubernetesModel):
    """The runtime a TrainJob runs on."""

    name: Name
    """Name of the runtime."""
    api_group: Annotated[str, Field(max_length=253)] = GROUP
    """API group of the runtime."""
    kind: Annotated[str, Field(max_length=253)] = CLUSTER_TRAINING_RUNTIME
    """TrainingRuntime or ClusterTrainingRuntime."""


class InitializerSource(KubernetesModel):
    """Where a dataset or a model comes from."""

    storage_uri: Annotated[str | None, Field(max_length=2048, json_schema_extra=rules(_URI))] = None
    """Address of the data, such as ``hf://user/dataset``."""
    env: EnvList | None = None
    """Environment variables of the initializer container."""
    secret_ref: LocalObjectReference | None = None
    """Secret whose keys become environment variables of the initializer container."""


class Initializer(KubernetesModel):
    """Steps that run before training."""

    dataset: InitializerSource | None = None
    """The dataset to fetch."""
    model: InitializerSource | None = None
    """The pretrained model to fetch."""


class Trainer(KubernetesModel):
    """What the training nodes run; it wins over the runtime."""

    image: Image | None = None
    """Container image."""
    command: LongTexts | None = None
    """Entry point."""
    args: LongTexts | None = None
    """Arguments of the entry point."""
    env: EnvList | None = None
    """Environment variables."""
    num_nodes: Annotated[Int32, Field(ge=1)] | None = None
    """Number of training nodes."""
    resources_per_node: Annotated[Body | None, Field(json_schema_extra=embedded("container.resources"))] = None
    """Compute of one node; each key wins over the runtime's."""
    num_proc_per_node: Annotated[IntOrString | None, Field(json_schema_extra=rules(_PROCESSES))] = None
    """Training processes on one node; auto, cpu and gpu are resolved on admission and never stored."""


class TrainJobSpec(KubernetesModel):
    """What a TrainJob asks for."""

    runtime_ref: Annotated[RuntimeRef, Field(json_schema_extra=rules(IMMUTABLE))]
    """The runtime."""
    initializer: Annotated[Initializer | None, Field(json_schema_extra=rules(IMMUTABLE))] = None
    """Steps that run before training."""
    trainer: Annotated[Trainer | None, Field(json_schema_extra=rules(IMMUTABLE))] = None
    """What the training nodes run."""
    labels: dict[str, str] | None = None
    """Labels of the JobSet; they win over the runtime's."""
    annotations: dict[str, str] | None = None
    """Annotations of the JobSet; they win over the runtime's."""
    pod_spec_overrides: Annotated[list[PodSpecOverride] | None, Field(json_schema_extra=atomic())] = None
    """Changes of pods as Trainer v2.0 had them; applied before podTemplateOverrides."""
    pod_template_overrides: Annotated[list[PodTemplateOverride] | None, Field(json_schema_extra=atomic())] = None
    """Changes of pod templates as Trainer v2.1 had them; applied before runtimePatches."""
    runtime_patches: Annotated[
        list[RuntimePatch] | None, Field(max_length=16, json_schema_extra=list_map("manager"))
    ] = None
    """Changes of the runtime for this job, one entry a manager; later entries win."""
    suspend: bool = False
    """Whether the job is held back."""
    active_deadline_seconds: Annotated[
        Annotated[Int64, Field(ge=1)] | None, Field(json_schema_extra=rules(IMMUTABLE))
    ] = None
    """Seconds the job may run before it fails; counted from the last resume."""
    managed_by: Annotated[str, Field(max_length=253, json_schema_extra=rules(_MANAGED_BY, IMMUTABLE))] = (
        MANAGED_BY_TRAINER
    )
    """Controller that is in charge of the job."""


class JobStatus(KubernetesModel):
    """Pods of one replicatedJob by state."""

    name: Name
    """Name of the replicatedJob."""
    ready: Annotated[Int32, Field(ge=0)]
    """Jobs whose pods are ready."""
    succeeded: Annotated[Int32, Field(ge=0)]
    """Jobs that succeeded."""
    failed: Annotated[Int32, Field(ge=0)]
    """Jobs that failed."""
    active: Annotated[Int32, Field(ge=0)]
    """Jobs with running pods."""
    suspended: Annotated[Int32, Field(ge=0)]
    """Jobs that are held back."""


class Metric(KubernetesModel):
    """One figure the training code reports."""

    name: Annotated[str, Field(min_length=1, max_length=64)]
    """Name of the figure."""
    value: Annotated[str, Field(min_length=1, max_length=64)]
    """Its value."""


class TrainerStatus(KubernetesModel):
    """What the training code reports about its progress."""

    model_config = ConfigDict(json_schema_extra=rules(_REPORTED))

    progress_percentage: Annotated[Int32, Field(ge=0, le=100)] | None = None
    """Progress in percent."""
    estimated_remaining_seconds: Annotated[Int32, Field(ge=0)] | None = None
    """Seconds left."""
    metrics: Annotated[list[Metric] | None, Field(max_length=256, json_schema_extra=atomic())] = None
    """Figures."""
    last_updated_time: Timestamp | None = None
    """When it was reported."""


class JobSetRecord(KubernetesModel):
    """The JobSet that carries the TrainJob out, recorded so that no second one is created."""

    uid: Annotated[str, Field(min_length=1, max_length=64)]
    """Uid of the JobSet."""
    remake: Annotated[str, Field(min_length=1, max_length=256)] | None = None
    """Why this JobSet is deleted and created again; unset once the new one exists."""


class TrainJobStatus(KubernetesModel):
    """What became of a TrainJob."""

    model_config = ConfigDict(json_schema_extra={"minProperties": 1})

    conditions: Annotated[list[Condition] | None, Field(max_length=8, json_schema_extra=list_map("type"))] = None
    """Suspended, Complete and Failed."""
    jobs_status: Annotated[list[JobStatus] | None, Field(max_length=100, json_schema_extra=list_map("name"))] = None
    """Pods by replicatedJob."""
    trainer_status: TrainerStatus | None = None
    """Progress, as the training code reports it."""
    job_set: JobSetRecord | None = None
    """The JobSet that was created for the TrainJob; once recorded, a lost JobSet fails the TrainJob."""


class TrainJob(KubernetesModel):
    """A training job: which runtime, how many nodes, which code."""

    model_config = ConfigDict(json_schema_extra=rules(_NAME_LABEL, _NAME_LENGTH))

    api_version: Literal["trainer.kubeflow.org/v1alpha1"] = API_VERSION
    kind: Literal["TrainJob"] = "TrainJob"
    metadata: ObjectMeta = ObjectMeta()
    spec: TrainJobSpec | None = None
    """What the job asks for."""
    status: TrainJobStatus | None = None
    """What became of it."""
