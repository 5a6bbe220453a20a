"""What the attackers of a live platform make: the kinds, a good object of each, and how an attempt changes it."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

TENANT: Final = "red"
IMAGE: Final = "registry.example/train:1"

Body = dict[str, Any]


@dataclass(frozen=True)
class Kind:
    """Where the objects of a kind are."""

    api: str
    plural: str
    namespaced: bool = True

    def path(self, namespace: str, name: str = "") -> str:
        """Return the path of the collection in a namespace, or of one object."""
        root = "/api/v1" if self.api == "v1" else f"/apis/{self.api}"
        where = f"/namespaces/{namespace}" if self.namespaced else ""
        return f"{root}{where}/{self.plural}" + (f"/{name}" if name else "")


KINDS: Final = {
    "TrainJob": Kind("trainer.kubeflow.org/v1alpha1", "trainjobs"),
    "TrainingRuntime": Kind("trainer.kubeflow.org/v1alpha1", "trainingruntimes"),
    "ClusterTrainingRuntime": Kind("trainer.kubeflow.org/v1alpha1", "clustertrainingruntimes", namespaced=False),
    "JobSet": Kind("jobset.x-k8s.io/v1alpha2", "jobsets"),
    "VolcanoJob": Kind("batch.volcano.sh/v1alpha1", "jobs"),
    "VolcanoCronJob": Kind("batch.volcano.sh/v1alpha1", "cronjobs"),
    "JobFlow": Kind("flow.volcano.sh/v1alpha1", "jobflows"),
    "JobTemplate": Kind("flow.volcano.sh/v1alpha1", "jobtemplates"),
    "Job": Kind("batch/v1", "jobs"),
    "CronJob": Kind("batch/v1", "cronjobs"),
    **{name: Kind("apps/v1", f"{name.lower()}s") for name in ("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet")},
    "Pod": Kind("v1", "pods"),
    "ReplicationController": Kind("v1", "replicationcontrollers"),
    "PodGroup": Kind("scheduling.volcano.sh/v1beta1", "podgroups"),
    "PodDisruptionBudget": Kind("policy/v1", "poddisruptionbudgets"),
    "Queue": Kind("scheduling.volcano.sh/v1beta1", "queues", namespaced=False),
    "PriorityClass": Kind("scheduling.k8s.io/v1", "priorityclasses", namespaced=False),
    "HyperNode": Kind("topology.volcano.sh/v1alpha1", "hypernodes", namespaced=False),
    "Command": Kind("bus.volcano.sh/v1alpha1", "commands"),
    "ConfigMap": Kind("v1", "configmaps"),
    "Secret": Kind("v1", "secrets"),
    "PersistentVolumeClaim": Kind("v1", "persistentvolumeclaims"),
    "ResourceClaim": Kind("resource.k8s.io/v1", "resourceclaims"),
    "ResourceClaimTemplate": Kind("resource.k8s.io/v1", "resourceclaimtemplates"),
    "Namespace": Kind("v1", "namespaces", namespaced=False),
    "ServiceAccount": Kind("v1", "serviceaccounts"),
    "ResourceQuota": Kind("v1", "resourcequotas"),
    "LimitRange": Kind("v1", "limitranges"),
    "Service": Kind("v1", "services"),
    "TenantPolicy": Kind("trainyard.dev/v1alpha1", "tenantpolicies"),
    "Platform": Kind("trainyard.dev/v1alpha1", "platforms", namespaced=False),
    "Role": Kind("rbac.authorization.k8s.io/v1", "roles"),
    "RoleBinding": Kind("rbac.authorization.k8s.io/v1", "rolebindings"),
    "ClusterRole": Kind("rbac.authorization.k8s.io/v1", "clusterroles", namespaced=False),
    "ClusterRoleBinding": Kind("rbac.authorization.k8s.io/v1", "clusterrolebindings", namespaced=False),
    "CertificateSigningRequest": Kind("certificates.k8s.io/v1", "certificatesigningrequests", namespaced=False),
    "CustomResourceDefinition": Kind("apiextensions.k8s.io/v1", "customresourcedefinitions", namespaced=False),
    **{
        name: Kind("admissionregistration.k8s.io/v1", f"{name.lower()}s", namespaced=False)
        for name in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
    },
    "ValidatingAdmissionPolicy": Kind("admissionregistration.k8s.io/v1", "validatingadmissionpolicies", False),
    "ValidatingAdmissionPolicyBinding": Kind(
        "admissionregistration.k8s.io/v1", "validatingadmissionpolicybindings", namespaced=False
    ),
}

GATES: Final = ("example.com/hold", "kueue.x-k8s.io/admission")
POD_SPEC: Final[Body] = {"restartPolicy": "Never", "containers": [{"name": "node", "image": IMAGE}]}
_GANG_POD = {**POD_SPEC, "schedulerName": "volcano"}
_TASK = {"name": "node", "replicas": 1, "template": {"spec": {**POD_SPEC}}}
_JOB = {"parallelism": 1, "completions": 1, "template": {"spec": _GANG_POD}}
_STEP = {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}}
_CRON = {"schedule": "0 3 1 1 *", "jobTemplate": {"spec": {"template": {"spec": POD_SPEC}}}}
_LABELS = {"app": "made"}
_SERVER = {
    "replicas": 0,
    "selector": {"matchLabels": _LABELS},
    "template": {"metadata": {"labels": _LABELS}, "spec": {"containers": [{"name": "node", "image": IMAGE}]}},
}
"""A server that is not started yet: the attempts make no pods."""

_DEVICES = {
    "name": "gpus",
    "exactly": {"deviceClassName": "gpu.example.com", "allocationMode": "ExactCount", "count": 8},
}

GOOD: Final[Mapping[str, tuple[str, Body]]] = {
    "train-job": (
        "TrainJob",
        {
            "spec": {
                "runtimeRef": {"name": "torch-distributed"},
                "suspend": True,
                "trainer": {
                    "numNodes": 1,
                    "command": ["train"],
                    "resourcesPerNode": {"limits": {"nvidia.com/gpu": "8"}},
                },
            }
        },
    ),
    "runtime": (
        "TrainingRuntime",
        {
            "metadata": {"labels": {"trainer.kubeflow.org/framework": "torch"}},
            "spec": {
                "mlPolicy": {"numNodes": 1, "torch": {}},
                "podGroupPolicy": {"volcano": {}},
                "template": {
                    "spec": {
                        "replicatedJobs": [
                            {"name": "node", "template": {"metadata": _STEP, "spec": {"template": {"spec": POD_SPEC}}}}
                        ]
                    }
                },
            },
        },
    ),
    "job-set": (
        "JobSet",
        {
            "spec": {
                "suspend": True,
                "replicatedJobs": [{"name": "node", "replicas": 1, "template": {"spec": _JOB}}],
            }
        },
    ),
    "volcano-job": (
        "VolcanoJob",
        {"spec": {"schedulerName": "volcano", "queue": TENANT, "minAvailable": 1, "tasks": [_TASK]}},
    ),
    "job": ("Job", {"spec": {"suspend": True, "template": {"spec": POD_SPEC}}}),
    "pod": ("Pod", {"spec": {**POD_SPEC, "schedulingGates": [{"name": name} for name in GATES]}}),
    "pod-group": ("PodGroup", {"spec": {"minMember": 1, "queue": TENANT}}),
    "secret": ("Secret", {"stringData": {"key": "value"}}),
    "config-map": ("ConfigMap", {"data": {"key": "value"}}),
    "claim": (
        "PersistentVolumeClaim",
        {"spec": {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Ti"}}}},
    ),
    "device-claim": ("ResourceClaim", {"spec": {"devices": {"requests": [_DEVICES]}}}),
    "device-claim-template": ("ResourceClaimTemplate", {"spec": {"spec": {"devices": {"requests": [_DEVICES]}}}}),
    "cron-job": ("CronJob", {"spec": _CRON}),
    "deployment": ("Deployment", {"spec": _SERVER}),
    "stateful-set": ("StatefulSet", {"spec": {**_SERVER, "serviceName": "made"}}),
    "daemon-set": ("DaemonSet", {"spec": {name: _SERVER[name] for name in ("selector", "template")}}),
    "replica-set": ("ReplicaSet", {"spec": _SERVER}),
    "service": ("Service", {"spec": {"selector": _LABELS, "ports": [{"port": 80}]}}),
    "disruption-budget": (
        "PodDisruptionBudget",
        {"spec": {"maxUnavailable": 0, "selector": {"matchLabels": _LABELS}}},
    ),
    "limit-range": ("LimitRange", {"spec": {"limits": [{"type": "PersistentVolumeClaim", "max": {"storage": "8Ti"}}]}}),
    "volcano-cron-job": (
        "VolcanoCronJob",
        {"spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {"minAvailable": 1, "tasks": [_TASK]}}}},
    ),
    "job-flow": ("JobFlow", {"spec": {"flows": [{"name": "a"}], "jobRetainPolicy": "delete"}}),
    "job-template": ("JobTemplate", {"spec": {"minAvailable": 1, "tasks": [_TASK]}}),
    "command": (
        "Command",
        {
            "action": "CloseQueue",
            "target": {
                "apiVersion": "scheduling.volcano.sh/v1beta1",
                "kind": "Queue",
                "name": "vision",
                "uid": "00000000-0000-0000-0000-000000000000",
            },
        },
    ),
    "queue": ("Queue", {"spec": {"weight": 1, "parent": "root"}}),
    "hyper-node": (
        "HyperNode",
        {"spec": {"tier": 1, "members": [{"type": "Node", "selector": {"exactMatch": {"name": "rack-0-node-0"}}}]}},
    ),
    "priority-class": ("PriorityClass", {"value": 5}),
    "resource-quota": ("ResourceQuota", {"spec": {"hard": {"count/pods": "0"}}}),
    "namespace": ("Namespace", {}),
    "role-binding": (
        "RoleBinding",
        {
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": f"{TENANT}-raw"}],
        },
    ),
    "certificate-request": (
        "CertificateSigningRequest",
        {
            "spec": {
                "request": "bm9uZQ==",
                "signerName": "kubernetes.io/kube-apiserver-client",
                "usages": ["client auth"],
            }
        },
    ),
}
"""Objects that the tenant may make, or could with further permissions: by name, their kind and content."""


OF_PODS: Final = ("template", "jobMetadata", "podMetadata", "pod", "container")
"""Changes of the pods that an object makes."""


def good(name: str, called: str, **changes: Any) -> tuple[str, Body]:
    """Return a kind and a good object of it, with changes of an attempt."""
    kind, content = GOOD[name]
    body = copy.deepcopy({"apiVersion": KINDS[kind].api, "kind": kind.removeprefix("Volcano"), **content})
    body["metadata"] = {"name": called, **body.get("metadata", {})}
    if KINDS[kind].namespaced:
        body["metadata"].setdefault("namespace", TENANT)
    _change(kind, body, changes)
    return kind, _without_null(body)


def _change(kind: str, body: Body, changes: Mapping[str, Any]) -> None:
    """Make the changes of an attempt in a good object."""
    for part in ("metadata", "spec"):
        if part in changes:
            _merge(body.setdefault(part, {}), changes[part])
    _merge(body, changes.get("fields", {}))
    if "replicas" in changes:
        body["spec"]["replicatedJobs"][0]["replicas"] = changes["replicas"]
    wanted = {name: changes[name] for name in OF_PODS if name in changes}
    if kind == "TrainJob" and wanted:
        generation = changes.get("by", "runtimePatches")
        body["spec"][generation] = [_GENERATIONS[generation](wanted)]
        return
    if not wanted:
        return
    holder = _pod_holder(kind, body)
    if "podMetadata" in wanted:
        _merge(holder.setdefault("metadata", {}), wanted["podMetadata"])
    spec = holder["spec"]
    _merge(spec, wanted.get("pod", {}))
    _merge(spec["containers"][0], wanted.get("container", {}))


def _pod_holder(kind: str, body: Body) -> Body:
    """Return what has metadata and spec of the pods of an object."""
    holder: Body = body
    for step in _PODS[kind]:
        holder = holder[step]
    return holder


def _runtime_patch(wanted: Mapping[str, Any]) -> Body:
    template: Body = copy.deepcopy(wanted.get("template", {}))
    pods: Body = {}
    if "podMetadata" in wanted:
        pods["metadata"] = wanted["podMetadata"]
    if spec := _pod_changes(wanted):
        pods["spec"] = spec
    job: Body = {"spec": {"template": pods}} if pods else {}
    if "jobMetadata" in wanted:
        job["metadata"] = wanted["jobMetadata"]
    if job:
        template["spec"] = {"replicatedJobs": [{"name": "node", "template": job}]}
    return {"manager": "example.com/attempt", "trainingRuntimeSpec": {"template": template}}


def _pod_template_override(wanted: Mapping[str, Any]) -> Body:
    body: Body = {"targetJobs": [{"name": "node"}]}
    if "podMetadata" in wanted:
        body["metadata"] = wanted["podMetadata"]
    if spec := _pod_changes(wanted):
        body["spec"] = spec
    return body


def _pod_spec_override(wanted: Mapping[str, Any]) -> Body:
    return {"targetJobs": [{"name": "node"}], **_pod_changes(wanted)}


def _pod_changes(wanted: Mapping[str, Any]) -> Body:
    spec = copy.deepcopy(dict(wanted.get("pod", {})))
    if "container" in wanted:
        spec["containers"] = [{"name": "node", **wanted["container"]}]
    return spec


_PODS: Final[Mapping[str, tuple[Any, ...]]] = {
    "Pod": (),
    **dict.fromkeys(("Job", "Deployment", "StatefulSet", "DaemonSet", "ReplicaSet"), ("spec", "template")),
    "CronJob": ("spec", "jobTemplate", "spec", "template"),
    "VolcanoJob": ("spec", "tasks", 0, "template"),
    "JobSet": ("spec", "replicatedJobs", 0, "template", "spec", "template"),
    "TrainingRuntime": ("spec", "template", "spec", "replicatedJobs", 0, "template", "spec", "template"),
}
"""Steps to what has metadata and spec of the pods."""

_GENERATIONS: Final = {
    "runtimePatches": _runtime_patch,
    "podTemplateOverrides": _pod_template_override,
    "podSpecOverrides": _pod_spec_override,
}


def _merge(body: Body, change: Mapping[str, Any]) -> None:
    for key, value in change.items():
        if isinstance(value, Mapping) and isinstance(body.get(key), dict):
            _merge(body[key], value)
        else:
            body[key] = copy.deepcopy(value)


def _without_null(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _without_null(each) for key, each in value.items() if each is not None}
    return [_without_null(each) for each in value] if isinstance(value, list) else value
