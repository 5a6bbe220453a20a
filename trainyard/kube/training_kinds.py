"""Kinds of training platforms: Kubeflow Trainer, Trainyard, JobSet, Volcano and Kueue."""

from __future__ import annotations

from typing import Final

from trainyard.kube.resource import Resource

_TRAINER, _TRAINYARD = "trainer.kubeflow.org", "trainyard.dev"

TRAIN_JOBS: Final = Resource(_TRAINER, "v1alpha1", "trainjobs", "TrainJob")
TRAINING_RUNTIMES: Final = Resource(_TRAINER, "v1alpha1", "trainingruntimes", "TrainingRuntime")
CLUSTER_TRAINING_RUNTIMES: Final = Resource(
    _TRAINER, "v1alpha1", "clustertrainingruntimes", "ClusterTrainingRuntime", namespaced=False
)
TENANT_POLICIES: Final = Resource(_TRAINYARD, "v1alpha1", "tenantpolicies", "TenantPolicy")
PLATFORMS: Final = Resource(_TRAINYARD, "v1alpha1", "platforms", "Platform", namespaced=False)
JOB_SETS: Final = Resource("jobset.x-k8s.io", "v1alpha2", "jobsets", "JobSet")
POD_GROUPS: Final = Resource("scheduling.volcano.sh", "v1beta1", "podgroups", "PodGroup")
QUEUES: Final = Resource("scheduling.volcano.sh", "v1beta1", "queues", "Queue", namespaced=False)
HYPER_NODES: Final = Resource("topology.volcano.sh", "v1alpha1", "hypernodes", "HyperNode", namespaced=False)
VOLCANO_JOBS: Final = Resource("batch.volcano.sh", "v1alpha1", "jobs", "Job")
COMMANDS: Final = Resource("bus.volcano.sh", "v1alpha1", "commands", "Command")
RESOURCE_FLAVORS: Final = Resource("kueue.x-k8s.io", "v1beta2", "resourceflavors", "ResourceFlavor", namespaced=False)
WORKLOADS: Final = Resource("kueue.x-k8s.io", "v1beta2", "workloads", "Workload")
