"""The resources the controller reads and writes, and the names it gives to what it makes."""

from __future__ import annotations

from trainyard.kube.resource import Resource

__all__ = [
    "CLUSTER_TRAINING_RUNTIMES",
    "COMMANDS",
    "CONFIG_MAPS",
    "COSCHEDULING_POD_GROUPS",
    "FIELD_MANAGER",
    "JOB_SETS",
    "MUTATING_WEBHOOKS",
    "NAMESPACES",
    "PLATFORMS",
    "POD_GROUPS",
    "PRIORITY_CLASSES",
    "QUEUES",
    "SECRETS",
    "TENANT_POLICIES",
    "TRAINING_RUNTIMES",
    "TRAIN_JOBS",
    "VALIDATING_WEBHOOKS",
]

TRAIN_JOBS = Resource("trainer.kubeflow.org", "v1alpha1", "trainjobs", "TrainJob")
TRAINING_RUNTIMES = Resource("trainer.kubeflow.org", "v1alpha1", "trainingruntimes", "TrainingRuntime")
CLUSTER_TRAINING_RUNTIMES = Resource(
    "trainer.kubeflow.org", "v1alpha1", "clustertrainingruntimes", "ClusterTrainingRuntime", namespaced=False
)
TENANT_POLICIES = Resource("trainyard.dev", "v1alpha1", "tenantpolicies", "TenantPolicy")
PLATFORMS = Resource("trainyard.dev", "v1alpha1", "platforms", "Platform", namespaced=False)
JOB_SETS = Resource("jobset.x-k8s.io", "v1alpha2", "jobsets", "JobSet")
POD_GROUPS = Resource("scheduling.volcano.sh", "v1beta1", "podgroups", "PodGroup")
QUEUES = Resource("scheduling.volcano.sh", "v1beta1", "queues", "Queue", namespaced=False)
COMMANDS = Resource("bus.volcano.sh", "v1alpha1", "commands", "Command")
COSCHEDULING_POD_GROUPS = Resource("scheduling.x-k8s.io", "v1alpha1", "podgroups", "PodGroup")
CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap")
SECRETS = Resource("", "v1", "secrets", "Secret")
NAMESPACES = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
PRIORITY_CLASSES = Resource("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", namespaced=False)
MUTATING_WEBHOOKS = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "mutatingwebhookconfigurations",
    "MutatingWebhookConfiguration",
    namespaced=False,
)
VALIDATING_WEBHOOKS = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "validatingwebhookconfigurations",
    "ValidatingWebhookConfiguration",
    namespaced=False,
)
FIELD_MANAGER = "trainer"
