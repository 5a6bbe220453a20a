"""Training runtimes: template, framework and gang policy published by a platform team."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from trainyard.api.constants import API_VERSION
from trainyard.api.gang_policy import PodGroupPolicy
from trainyard.api.kubernetes_model import Body, EmbeddedMetadata, KubernetesModel, ObjectMeta
from trainyard.api.markers import embedded
from trainyard.api.ml_policy import MLPolicy
from trainyard.api.shape_rule import ShapeRule, known_rules


class JobSetTemplate(KubernetesModel):
    """Template of a TrainJob's JobSet."""

    model_config = ConfigDict(json_schema_extra={"minProperties": 1})

    metadata: EmbeddedMetadata | None = None
    """Labels and annotations of the JobSet."""
    spec: Annotated[Body | None, Field(json_schema_extra=embedded("spec"))] = None
    """Specification of the JobSet."""


class RuntimeSpec(KubernetesModel):
    """Specification of a runtime."""

    model_config = ConfigDict(json_schema_extra={"minProperties": 1})

    ml_policy: Annotated[MLPolicy | None, Field(alias="mlPolicy")] = None
    """The framework."""
    pod_group_policy: PodGroupPolicy | None = None
    """The gang scheduler."""
    template: JobSetTemplate | None = None
    """The JobSet."""


class TrainingRuntime(KubernetesModel):
    """Runtime of a namespace."""

    api_version: Literal["trainer.kubeflow.org/v1alpha1"] = API_VERSION
    kind: Literal["TrainingRuntime"] = "TrainingRuntime"
    metadata: ObjectMeta = ObjectMeta()
    spec: RuntimeSpec | None = None
    """What the runtime provides."""


class ClusterTrainingRuntime(KubernetesModel):
    """Runtime for all namespaces."""

    api_version: Literal["trainer.kubeflow.org/v1alpha1"] = API_VERSION
    kind: Literal["ClusterTrainingRuntime"] = "ClusterTrainingRuntime"
    metadata: ObjectMeta = ObjectMeta()
    spec: RuntimeSpec | None = None
    """What the runtime provides."""


Runtime = TrainingRuntime | ClusterTrainingRuntime
"""Runtime of either scope."""


def shape_rules() -> Mapping[str, ShapeRule]:
    """Return the shape rules of the trainer API with an id, by id."""
    for policy in (MLPolicy, PodGroupPolicy):
        policy.model_rebuild()
    return {rule.id: rule for rule in known_rules() if rule.id}
