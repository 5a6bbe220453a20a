"""Resources that the controller reads and writes, and the names of the objects it creates."""

from __future__ import annotations

from trainyard.kube.kinds import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    MUTATING_WEBHOOKS,
    NAMESPACES,
    PRIORITY_CLASSES,
    SECRETS,
    VALIDATING_WEBHOOKS,
)
from trainyard.kube.resource import Resource
from trainyard.render.gangs import CHILDREN

__all__ = [
    "CLUSTER_TRAINING_RUNTIMES",
    "COMMANDS",
    "CONFIG_MAPS",
    "DEPLOYMENTS",
    "FIELD_MANAGER",
    "GANG_OBJECTS",
    "HYPER_NODES",
    "JOB_SETS",
    "MUTATING_WEBHOOKS",
    "NAMESPACES",
    "PLATFORMS",
    "POD_GROUPS",
    "PRIORITY_CLASSES",
    "QUEUES",
    "SECRETS",
    "TENANT_POLICIES",
    "TOKEN_REVIEWS",
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
HYPER_NODES = Resource("topology.volcano.sh", "v1alpha1", "hypernodes", "HyperNode", namespaced=False)
COMMANDS = Resource("bus.volcano.sh", "v1alpha1", "commands", "Command")
GANG_OBJECTS = {Resource(each.group, each.version, each.plural, each.kind): each for each in CHILDREN}
"""What each gang scheduler says of the resource of its gangs."""
TOKEN_REVIEWS = Resource("authentication.k8s.io", "v1", "tokenreviews", "TokenReview", namespaced=False)
FIELD_MANAGER = "trainer"
