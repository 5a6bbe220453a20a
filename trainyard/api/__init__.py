"""The trainer API and Trainyard's APIs: models, names, shape rules, and the CRDs generated from them.

Modules are imported at the first use of a name: importing all of them takes longer than most commands run, and most
commands need few of them. A name must not also be a module of the package, to which the import system would set it.
"""

import importlib
from typing import TYPE_CHECKING

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
    _MODULES = {
        "gang_policy": "PodGroupPolicy",
        "kubernetes_model": "Body Condition EmbeddedMetadata KubernetesModel LocalObjectReference ObjectMeta",
        "ml_policy": "MLPolicy",
        "parsing": "MODELS findings_of parse",
        "runtime": "ClusterTrainingRuntime Runtime RuntimeSpec TrainingRuntime shape_rules",
        "runtime_patch": "RuntimePatch",
        "shape_rule": "ShapeRule",
        "tenancy": "Platform PlatformSpec TenantPolicy TenantPolicySpec Tier",
        "train_job": "Initializer JobStatus RuntimeRef Trainer TrainJob TrainJobSpec TrainJobStatus",
    }
    _MODULE_OF = {name: module for module, names in _MODULES.items() for name in names.split()}

    def __getattr__(name):
        if name not in _MODULE_OF:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
        globals()[name] = value
        return value


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
