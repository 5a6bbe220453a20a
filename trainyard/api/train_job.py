"""TrainJob: the training job that a data scientist submits."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from trainyard.api.constants import (
    API_VERSION,
    CLUSTER_TRAINING_RUNTIME,
    GROUP,
    MANAGED_BY_TRAINER,
    MOST_JOBS,
    MULTIKUEUE,
)
from trainyard.api.kubernetes_model import (
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
from trainyard.api.markers import EnvList, Image, LongTexts, Name, atomic, embedded, list_map, rules
from trainyard.api.pod_overrides import PodSpecOverride, PodTemplateOverride
from trainyard.api.runtime_patch import RuntimePatch
from trainyard.api.shape_rule import IMMUTABLE, ShapeRule

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
    """Reference to the runtime of a TrainJob."""

    name: Name
    """Name of the runtime."""
    api_group: Annotated[str, Field(max_length=253)] = GROUP
    """API group of the runtime."""
    kind: Annotated[str, Field(max_length=253)] = CLUSTER_TRAINING_RUNTIME
    """TrainingRuntime or ClusterTrainingRuntime."""


class InitializerSource(KubernetesModel):
    """Source of a dataset or model."""

    storage_uri: Annotated[str | None, Field(max_length=2048, json_schema_extra=rules(_URI))] = None
    """URI of the data, such as ``hf://user/dataset``."""
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
    """Configuration of the training nodes; takes precedence over the runtime."""

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
    """Compute resources per node; each key takes precedence over the runtime's."""
    num_proc_per_node: Annotated[IntOrString | None, Field(json_schema_extra=rules(_PROCESSES))] = None
    """Training processes per node; auto, cpu and gpu are resolved on admission and never stored."""


class TrainJobSpec(KubernetesModel):
    """Specification of a TrainJob."""

    runtime_ref: Annotated[RuntimeRef, Field(json_schema_extra=rules(IMMUTABLE))]
    """The runtime."""
    initializer: Annotated[Initializer | None, Field(json_schema_extra=rules(IMMUTABLE))] = None
    """Steps that run before training."""
    trainer: Annotated[Trainer | None, Field(json_schema_extra=rules(IMMUTABLE))] = None
    """What the training nodes run."""
    labels: dict[str, str] | None = None
    """Labels of the JobSet; they take precedence over the runtime's."""
    annotations: dict[str, str] | None = None
    """Annotations of the JobSet; they take precedence over the runtime's."""
    pod_spec_overrides: Annotated[list[PodSpecOverride] | None, Field(json_schema_extra=atomic())] = None
    """Changes of pods (Trainer v2.0); applied before podTemplateOverrides."""
    pod_template_overrides: Annotated[list[PodTemplateOverride] | None, Field(json_schema_extra=atomic())] = None
    """Changes of pod templates (Trainer v2.1); applied before runtimePatches."""
    runtime_patches: Annotated[
        list[RuntimePatch] | None, Field(max_length=16, json_schema_extra=list_map("manager"))
    ] = None
    """Changes of the runtime for this job, one entry per manager; later entries take precedence."""
    suspend: bool = False
    """Whether the job is suspended."""
    active_deadline_seconds: Annotated[
        Annotated[Int64, Field(ge=1)] | None, Field(json_schema_extra=rules(IMMUTABLE))
    ] = None
    """Seconds that the job may run before it fails, starting at the last resume."""
    managed_by: Annotated[str, Field(max_length=253, json_schema_extra=rules(_MANAGED_BY, IMMUTABLE))] = (
        MANAGED_BY_TRAINER
    )
    """Controller that manages the job."""


class JobStatus(KubernetesModel):
    """Job counts of one replicatedJob by state."""

    name: Name
    """Name of the replicatedJob."""
    ready: Annotated[Int32, Field(ge=0)]
    """Number of Jobs whose pods are ready."""
    succeeded: Annotated[Int32, Field(ge=0)]
    """Number of Jobs that succeeded."""
    failed: Annotated[Int32, Field(ge=0)]
    """Number of Jobs that failed."""
    active: Annotated[Int32, Field(ge=0)]
    """Number of Jobs with running pods."""
    suspended: Annotated[Int32, Field(ge=0)]
    """Number of suspended Jobs."""


class Metric(KubernetesModel):
    """Metric reported by the training code."""

    name: Annotated[str, Field(min_length=1, max_length=64)]
    """Name of the metric."""
    value: Annotated[str, Field(min_length=1, max_length=64)]
    """Value of the metric."""


class TrainerStatus(KubernetesModel):
    """Progress reported by the training code."""

    model_config = ConfigDict(json_schema_extra=rules(_REPORTED))

    progress_percentage: Annotated[Int32, Field(ge=0, le=100)] | None = None
    """Progress in percent."""
    estimated_remaining_seconds: Annotated[Int32, Field(ge=0)] | None = None
    """Estimated remaining seconds."""
    metrics: Annotated[list[Metric] | None, Field(max_length=256, json_schema_extra=atomic())] = None
    """Metrics."""
    last_updated_time: Timestamp | None = None
    """Time of the report."""


class JobSetRecord(KubernetesModel):
    """The JobSet of the TrainJob, recorded so that it is never created twice."""

    uid: Annotated[str, Field(min_length=1, max_length=64)]
    """UID of the JobSet."""
    remake: Annotated[str, Field(min_length=1, max_length=256)] | None = None
    """Why this JobSet is being recreated; unset when the new JobSet exists."""
    resumed: Timestamp | None = None
    """When the TrainJob was last resumed, recorded when the condition Suspended is removed."""


class TrainJobStatus(KubernetesModel):
    """Status of a TrainJob."""

    model_config = ConfigDict(json_schema_extra={"minProperties": 1})

    conditions: Annotated[list[Condition] | None, Field(max_length=8, json_schema_extra=list_map("type"))] = None
    """Conditions: Suspended until a resumed job has pods, Complete, Failed, and Blocked while no JobSet can be made."""
    jobs_status: Annotated[list[JobStatus] | None, Field(max_length=MOST_JOBS, json_schema_extra=list_map("name"))] = (
        None
    )
    """Job counts by replicatedJob."""
    trainer_status: TrainerStatus | None = None
    """Progress reported by the training code."""
    job_set: JobSetRecord | None = None
    """The JobSet of the TrainJob; if a recorded JobSet is missing, the TrainJob fails."""


class TrainJob(KubernetesModel):
    """Training job: runtime, number of nodes and code."""

    model_config = ConfigDict(json_schema_extra=rules(_NAME_LABEL, _NAME_LENGTH))

    api_version: Literal["trainer.kubeflow.org/v1alpha1"] = API_VERSION
    kind: Literal["TrainJob"] = "TrainJob"
    metadata: ObjectMeta = ObjectMeta()
    spec: TrainJobSpec | None = None
    """Specification of the job."""
    status: TrainJobStatus | None = None
    """Status of the job."""
