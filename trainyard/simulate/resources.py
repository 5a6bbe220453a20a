"""The kinds of objects that a replay reads and writes."""

from __future__ import annotations

from typing import Final

from trainyard.kube import Resource

__all__ = [
    "CONFIG_MAPS",
    "DEPLOYMENTS",
    "HYPER_NODES",
    "NAMESPACES",
    "NODES",
    "PODS",
    "POD_GROUPS",
    "PRIORITY_CLASSES",
    "QUEUES",
    "SERVICE_ACCOUNTS",
    "resource_of",
]

CONFIG_MAPS: Final = Resource("", "v1", "configmaps", "ConfigMap")
DEPLOYMENTS: Final = Resource("apps", "v1", "deployments", "Deployment")
HYPER_NODES: Final = Resource("topology.volcano.sh", "v1alpha1", "hypernodes", "HyperNode", namespaced=False)
NAMESPACES: Final = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
NODES: Final = Resource("", "v1", "nodes", "Node", namespaced=False)
PODS: Final = Resource("", "v1", "pods", "Pod")
POD_GROUPS: Final = Resource("scheduling.volcano.sh", "v1beta1", "podgroups", "PodGroup")
PRIORITY_CLASSES: Final = Resource("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", namespaced=False)
QUEUES: Final = Resource("scheduling.volcano.sh", "v1beta1", "queues", "Queue", namespaced=False)
SERVICE_ACCOUNTS: Final = Resource("", "v1", "serviceaccounts", "ServiceAccount")

_RBAC, _ADMISSION = "rbac.authorization.k8s.io", "admissionregistration.k8s.io"
_KINDS: Final = {
    each.kind: each
    for each in (
        CONFIG_MAPS,
        DEPLOYMENTS,
        NAMESPACES,
        SERVICE_ACCOUNTS,
        Resource("", "v1", "secrets", "Secret"),
        Resource(_RBAC, "v1", "clusterroles", "ClusterRole", namespaced=False),
        Resource(_RBAC, "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False),
        Resource(_ADMISSION, "v1", "mutatingwebhookconfigurations", "MutatingWebhookConfiguration", namespaced=False),
        Resource(
            _ADMISSION, "v1", "validatingwebhookconfigurations", "ValidatingWebhookConfiguration", namespaced=False
        ),
        Resource(
            "apiextensions.k8s.io",
            "v1",
            "customresourcedefinitions",
            "CustomResourceDefinition",
            namespaced=False,
        ),
    )
}


def resource_of(kind: str) -> Resource:
    """Return the resource of a kind that an installation consists of."""
    return _KINDS[kind]
