"""Kueue's queues, flavors and topologies from the settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from trainyard.api.constants import MULTIKUEUE
from trainyard.settings.sections.kueue import ClusterQueueSettings, FlavorSettings, KueueSettings, QuotaSettings

_GROUP = "kueue.x-k8s.io"
_API = f"{_GROUP}/v1beta2"


def queue_objects(settings: KueueSettings) -> list[list[dict[str, Any]]]:
    """Return the cluster-scoped objects of the settings; each list requires the one before."""
    topologies = [
        _object("Topology", name, {"levels": [{"nodeLabel": label} for label in topology.levels]})
        for name, topology in settings.topologies.items()
    ]
    classes = [
        {
            "apiVersion": _API,
            "kind": "WorkloadPriorityClass",
            "metadata": {"name": name},
            "value": each.value,
            "description": each.description,
        }
        for name, each in settings.workload_priority_classes.items()
    ]
    flavors = [_object("ResourceFlavor", name, _flavor(flavor)) for name, flavor in settings.flavors.items()]
    queues = [
        _object("ClusterQueue", name, _cluster_queue(name, queue, _tenants(settings, name)))
        for name, queue in settings.cluster_queues.items()
    ]
    return [[*topologies, *classes, *_clusters(settings)], flavors, queues]


def local_queues(settings: KueueSettings, tenant: str) -> list[dict[str, Any]]:
    """Return the LocalQueues of a tenant."""
    return [
        {
            "apiVersion": _API,
            "kind": "LocalQueue",
            "metadata": {"name": queue.name, "namespace": tenant},
            "spec": {"clusterQueue": queue.cluster_queue, "stopPolicy": queue.stop_policy.value},
        }
        for queue in settings.local_queues
        if queue.tenant == tenant
    ]


def _clusters(settings: KueueSettings) -> Iterator[dict[str, Any]]:
    """Yield the clusters that run jobs of this one, and for each ClusterQueue that uses them its check."""
    for name, cluster in settings.multi_kueue.clusters.items() if settings.multi_kueue else ():
        location = {"locationType": "Secret", "location": cluster.kubeconfig_secret or name}
        yield _object("MultiKueueCluster", name, {"clusterSource": {"kubeConfig": location}})
    for name, queue in settings.cluster_queues.items():
        if queue.multi_kueue_clusters:
            yield _object("MultiKueueConfig", name, {"clusters": list(queue.multi_kueue_clusters)})
            parameters = {"apiGroup": _GROUP, "kind": "MultiKueueConfig", "name": name}
            yield _object("AdmissionCheck", name, {"controllerName": MULTIKUEUE, "parameters": parameters})


def _object(kind: str, name: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    return {"apiVersion": _API, "kind": kind, "metadata": {"name": name}, "spec": dict(spec)}


def _flavor(flavor: FlavorSettings) -> dict[str, Any]:
    spec: dict[str, Any] = {}
    if flavor.node_labels:
        spec["nodeLabels"] = dict(flavor.node_labels)
    if flavor.node_taints:
        spec["nodeTaints"] = [each.model_dump(mode="json", by_alias=True) for each in flavor.node_taints]
    if flavor.tolerations:
        spec["tolerations"] = [
            each.model_dump(mode="json", by_alias=True, exclude_none=True) for each in flavor.tolerations
        ]
    if flavor.topology is not None:
        spec["topologyName"] = flavor.topology
    return spec


def _cluster_queue(name: str, queue: ClusterQueueSettings, tenants: list[str]) -> dict[str, Any]:
    """Return the spec of a ClusterQueue that serves the namespaces of tenants, and no other."""
    spec: dict[str, Any] = {
        "queueingStrategy": queue.queueing_strategy.value,
        "preemption": queue.preemption.model_dump(mode="json", by_alias=True, exclude_none=True),
        "stopPolicy": queue.stop_policy.value,
        "resourceGroups": [
            {
                "coveredResources": list(group.flavors[0].quotas),
                "flavors": [
                    {
                        "name": each.flavor,
                        # Kueue requires the order of coveredResources.
                        "resources": [_quota(key, each.quotas[key]) for key in group.flavors[0].quotas],
                    }
                    for each in group.flavors
                ],
            }
            for group in queue.resource_groups
        ],
    }
    if queue.cohort is not None:
        spec["cohortName"] = queue.cohort
    if queue.multi_kueue_clusters:
        spec["admissionChecksStrategy"] = {"admissionChecks": [{"name": name}]}
    if tenants:
        spec["namespaceSelector"] = {
            "matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "In", "values": tenants}]
        }
    return spec


def _quota(name: str, quota: QuotaSettings) -> dict[str, Any]:
    return {"name": name, **quota.model_dump(mode="json", by_alias=True, exclude_none=True)}


def _tenants(settings: KueueSettings, cluster_queue: str) -> list[str]:
    return sorted({queue.tenant for queue in settings.local_queues if queue.cluster_queue == cluster_queue})
