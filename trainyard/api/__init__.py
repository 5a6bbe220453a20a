"""The trainer API and Trainyard's APIs: models, names, shape rules, and the CRDs generated from them."""

from typing import TYPE_CHECKING

from trainyard.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from trainyard.api.gang_policy import PodGroupPolicy
    from trainyard.api.kubernetes_model import (
        Body,
        Condition,
        EmbeddedMetadata,
        KubernetesModel,
        LocalObjectReference,
        ObjectMeta,
    )
    from trainyard.api.ml_policy import MLPolicy
    from trainyard.api.parsing import MODELS, findings_of, parse
    from trainyard.api.runtime import ClusterTrainingRuntime, Runtime, RuntimeSpec, TrainingRuntime, shape_rules
    from trainyard.api.runtime_patch import RuntimePatch
    from trainyard.api.shape_rule import ShapeRule
    from trainyard.api.tenancy import Platform, PlatformSpec, TenantPolicy, TenantPolicySpec, Tier
    from trainyard.api.train_job import (
        Initializer,
        JobStatus,
        RuntimeRef,
        Trainer,
        TrainJob,
        TrainJobSpec,
        TrainJobStatus,
    )
else:
    __getattr__ = lazy_exports(
        __name__,
        {
            "gang_policy": "PodGroupPolicy",
            "kubernetes_model": "Body Condition EmbeddedMetadata KubernetesModel LocalObjectReference ObjectMeta",
            "ml_policy": "MLPolicy",
            "parsing": "MODELS findings_of parse",
            "runtime": "ClusterTrainingRuntime Runtime RuntimeSpec TrainingRuntime shape_rules",
            "runtime_patch": "RuntimePatch",
            "shape_rule": "ShapeRule",
            "tenancy": "Platform PlatformSpec TenantPolicy TenantPolicySpec Tier",
            "train_job": "Initializer JobStatus RuntimeRef Trainer TrainJob TrainJobSpec TrainJobStatus",
        },
    )

__all__ = [
    "MODELS",
    "Body",
    "ClusterTrainingRuntime",
    "Condition",
    "EmbeddedMetadata",
    "Initializer",
    "JobStatus",
    "KubernetesModel",
    "LocalObjectReference",
    "MLPolicy",
    "ObjectMeta",
    "Platform",
    "PlatformSpec",
    "PodGroupPolicy",
    "Runtime",
    "RuntimePatch",
    "RuntimeRef",
    "RuntimeSpec",
    "ShapeRule",
    "TenantPolicy",
    "TenantPolicySpec",
    "Tier",
    "TrainJob",
    "TrainJobSpec",
    "TrainJobStatus",
    "Trainer",
    "TrainingRuntime",
    "findings_of",
    "parse",
    "shape_rules",
]
