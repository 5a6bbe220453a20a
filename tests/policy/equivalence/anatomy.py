"""What an object is made of: the roles its parts play, so that what fits in one place can be put in every other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

Body = dict[str, Any]

_SPECS: Final[Mapping[tuple[str, str], str]] = {
    ("v1", "Pod"): "PodSpec",
    ("batch/v1", "Job"): "JobSpec",
    ("batch.volcano.sh/v1alpha1", "Job"): "VolcanoJobSpec",
    ("jobset.x-k8s.io/v1alpha2", "JobSet"): "JobSetSpec",
    ("trainer.kubeflow.org/v1alpha1", "TrainingRuntime"): "RuntimeSpec",
    ("trainer.kubeflow.org/v1alpha1", "ClusterTrainingRuntime"): "RuntimeSpec",
    ("trainer.kubeflow.org/v1alpha1", "TrainJob"): "TrainJobSpec",
    ("scheduling.volcano.sh/v1beta1", "PodGroup"): "PodGroupSpec",
    ("v1", "PersistentVolumeClaim"): "ClaimSpec",
    ("resource.k8s.io/v1", "ResourceClaim"): "DeviceClaimSpec",
    ("resource.k8s.io/v1", "ResourceClaimTemplate"): "DeviceTemplateSpec",
}

_PARTS: Final[Mapping[str, Mapping[str, str]]] = {
    "JobSetSpec": {
        "replicatedJobs": "[ReplicatedJob",
        "failurePolicy": "FailurePolicy",
        "volumeClaimPolicies": "[ClaimPolicy",
    },
    "DeviceTemplateSpec": {"spec": "DeviceClaimSpec"},
    "DeviceClaimSpec": {"devices": "Devices"},
    "Devices": {"requests": "[DeviceRequest"},
    "DeviceRequest": {"exactly": "DeviceAmount", "firstAvailable": "[DeviceAmount"},
    "ClaimPolicy": {"templates": "[Claim"},
    "Claim": {"metadata": "Metadata", "spec": "ClaimSpec"},
    "ClaimSpec": {"dataSourceRef": "DataSource", "resources": "Resources"},
    "ReplicatedJob": {"template": "JobTemplate", "dependsOn": "[Dependency"},
    "JobTemplate": {"metadata": "Metadata", "spec": "JobSpec"},
    "JobSpec": {"template": "PodTemplate", "podFailurePolicy": "PodFailurePolicy"},
    "PodTemplate": {"metadata": "Metadata", "spec": "PodSpec"},
    "RuntimeSpec": {"template": "JobSetTemplate", "mlPolicy": "MLPolicy", "podGroupPolicy": "PodGroupPolicy"},
    "JobSetTemplate": {"metadata": "Metadata", "spec": "JobSetSpec"},
    "MLPolicy": {"torch": "Torch"},
    "Torch": {"elasticPolicy": "ElasticPolicy"},
    "PodGroupPolicy": {"volcano": "VolcanoPolicy"},
    "VolcanoPolicy": {"networkTopology": "NetworkTopology", "subGroupPolicy": "[SubGroup"},
    "TrainJobSpec": {
        "runtimePatches": "[Patch",
        "podTemplateOverrides": "[PodTemplate",
        "podSpecOverrides": "[PodSpec",
        "trainer": "Trainer",
        "runtimeRef": "RuntimeReference",
        "annotations": "Annotations",
        "labels": "Labels",
    },
    "Patch": {"trainingRuntimeSpec": "RuntimeSpec"},
    "Trainer": {"env": "[Variable", "resourcesPerNode": "Resources"},
    "VolcanoJobSpec": {"tasks": "[Task", "networkTopology": "NetworkTopology", "volumes": "[TaskVolume"},
    "TaskVolume": {"volumeClaim": "ClaimSpec"},
    "Task": {"template": "PodTemplate", "partitionPolicy": "Partition", "dependsOn": "TaskDependency"},
    "Partition": {"networkTopology": "NetworkTopology"},
    "PodGroupSpec": {
        "networkTopology": "NetworkTopology",
        "subGroupPolicy": "[SubGroup",
        "minTaskMember": "Amounts",
        "minResources": "Amounts",
    },
    "SubGroup": {"networkTopology": "NetworkTopology"},
    "PodSpec": {
        "containers": "[Container",
        "initContainers": "[Container",
        "ephemeralContainers": "[Container",
        "volumes": "[Volume",
        "securityContext": "Context",
        "tolerations": "[Toleration",
        "nodeSelector": "Labels",
        "affinity": "Affinity",
        "resourceClaims": "[ResourceClaim",
    },
    "Affinity": {"nodeAffinity": "NodeAffinity"},
    "Container": {
        "securityContext": "Context",
        "resources": "Resources",
        "env": "[Variable",
        "envFrom": "[VariableSource",
        "volumeMounts": "[Mount",
        "ports": "[Port",
    },
    "Context": {"capabilities": "Capabilities", "seLinuxOptions": "SELinux", "windowsOptions": "Windows"},
    "Volume": {"emptyDir": "EmptyDir", "projected": "Projected", "csi": "CSI", "ephemeral": "Ephemeral"},
    "Ephemeral": {"volumeClaimTemplate": "Claim"},
    "Resources": {"limits": "Amounts", "requests": "Amounts"},
    "Metadata": {"annotations": "Annotations", "labels": "Labels", "ownerReferences": "[Owner"},
}


@dataclass(frozen=True)
class Part:
    """A map or list of an object, and the role it plays; of a list the role of its items."""

    role: str
    node: Any


def parts(body: Body) -> list[Part]:
    """Return every part whose role is known, in the order of the object."""
    spec = _SPECS.get((str(body.get("apiVersion")), str(body.get("kind"))), f"{body.get('kind')}Spec")
    found = [Part(f"{body.get('kind')}", body)]
    found += _below("Metadata", body.get("metadata"))
    found += _below(spec, body.get("spec"))
    return found


def _below(role: str, node: Any) -> Iterator[Part]:
    if role.startswith("["):
        if isinstance(node, list):
            yield Part(role, node)
            for item in node:
                yield from _below(role[1:], item)
    elif isinstance(node, dict):
        yield Part(role, node)
        for key, inner in _PARTS.get(role, {}).items():
            yield from _below(inner, node.get(key))


def places(value: Any) -> list[tuple[Any, Any]]:
    """Return every place below a value as the map or list it lies in and its key there."""
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [place for key, inner in entries for place in ((value, key), *places(inner))]
