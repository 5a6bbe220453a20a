"""Objects that a cluster with kubelets needs: the API server's addresses, permissions, CoreDNS and storage; pure."""

from __future__ import annotations

from typing import Any

from trainyard.kube.kinds import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    CONFIG_MAPS,
    DEPLOYMENTS,
    ENDPOINT_SLICES,
    SERVICE_ACCOUNTS,
    SERVICES,
)
from trainyard.kube.resource import Resource
from trainyard.local.cluster.node.node_files import CLUSTER_DNS
from trainyard.local.cluster.node.node_plan import GATEWAY

DNS = "coredns"
"""Name of the Deployment in ``kube-system``."""

SYSTEM = "kube-system"
LABELS = {"app.kubernetes.io/managed-by": "trainyard-cluster"}
_DNS_LABELS = {"k8s-app": "kube-dns"}
_RBAC = "rbac.authorization.k8s.io"
_DNS_PORT = 53
"""Also of the pods: a policy permits a port of the pod that is connected to, and policies for names permit this one."""
_ANY_PORT = {"name": "net.ipv4.ip_unprivileged_port_start", "value": "0"}
"""CoreDNS needs no capability for its port."""
_COREFILE = f"""\
.:{_DNS_PORT} {{
    errors
    health :8080
    ready :8181
    kubernetes cluster.local in-addr.arpa {{
        ttl 5
    }}
    cache 5
    reload
    loadbalance
}}
"""
"""Without a forward plug-in: the nodes have no way out, so names of other domains do not exist."""

Objects = list[tuple[Resource, dict[str, Any]]]


def system_objects(port: int, dns_image: str) -> Objects:
    """Return the objects.

    Parameters
    ----------
    port
        Port of the API server.
    dns_image
        Reference of CoreDNS's image.
    """
    return [*_api_server(port), *_dns(dns_image)]


def _api_server(port: int) -> Objects:
    """Return where pods reach the API server, and what it may do at kubelets."""
    endpoints = {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": "kubernetes",
            "namespace": "default",
            "labels": {**LABELS, "kubernetes.io/service-name": "kubernetes"},
        },
        "addressType": "IPv4",
        "endpoints": [{"addresses": [GATEWAY], "conditions": {"ready": True}}],
        "ports": [{"name": "https", "port": port, "protocol": "TCP"}],
    }
    user = {"apiGroup": _RBAC, "kind": "User", "name": "kube-apiserver-kubelet-client"}
    return [
        (ENDPOINT_SLICES, endpoints),
        (CLUSTER_ROLE_BINDINGS, binding("trainyard:kubelet-api", "system:kubelet-api-admin", user)),
    ]


def binding(name: str, role: str, subject: dict[str, Any]) -> dict[str, Any]:
    """Return a ClusterRoleBinding."""
    return {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name, "labels": LABELS},
        "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": role},
        "subjects": [subject],
    }


def restricted_container() -> dict[str, Any]:
    """Return the security context of a container at the restricted level, with a read-only root."""
    context = {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
    }
    return {"securityContext": context}


def restricted_pod() -> dict[str, Any]:
    """Return the security context of a pod at the restricted level."""
    context = {
        "runAsNonRoot": True,
        "runAsUser": 65532,
        "runAsGroup": 65532,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    return {"securityContext": context}


def _dns(image: str) -> Objects:
    metadata = {"name": DNS, "namespace": SYSTEM, "labels": LABELS}
    read = ["list", "watch"]
    role = {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "ClusterRole",
        "metadata": {"name": f"system:{DNS}", "labels": LABELS},
        "rules": [
            {"apiGroups": [""], "resources": ["services", "pods", "namespaces"], "verbs": read},
            {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": read},
        ],
    }
    subject = {"kind": "ServiceAccount", "name": DNS, "namespace": SYSTEM}
    ports = [(protocol, f"dns-{protocol.lower()}") for protocol in ("UDP", "TCP")]
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {**metadata, "name": "kube-dns"},
        "spec": {
            "clusterIP": CLUSTER_DNS,
            "selector": _DNS_LABELS,
            "ports": [{"name": name, "port": 53, "targetPort": name, "protocol": protocol} for protocol, name in ports],
        },
    }
    return [
        (SERVICE_ACCOUNTS, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}),
        (CLUSTER_ROLES, role),
        (CLUSTER_ROLE_BINDINGS, binding(f"system:{DNS}", f"system:{DNS}", subject)),
        (CONFIG_MAPS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"Corefile": _COREFILE}}),
        (SERVICES, service),
        (DEPLOYMENTS, _dns_deployment(metadata, image, ports)),
    ]


def _dns_deployment(metadata: dict[str, Any], image: str, ports: list[tuple[str, str]]) -> dict[str, Any]:
    container = {
        "name": DNS,
        "image": image,
        "imagePullPolicy": "Never",
        "args": ["-conf", "/etc/coredns/Corefile"],
        "ports": [
            *({"name": name, "containerPort": _DNS_PORT, "protocol": protocol} for protocol, name in ports),
            {"name": "health", "containerPort": 8080, "protocol": "TCP"},
            {"name": "ready", "containerPort": 8181, "protocol": "TCP"},
        ],
        "livenessProbe": {"httpGet": {"path": "/health", "port": "health"}, "initialDelaySeconds": 30},
        "readinessProbe": {"httpGet": {"path": "/ready", "port": "ready"}, "periodSeconds": 2},
        "resources": {"requests": {"cpu": "20m", "memory": "40Mi"}, "limits": {"memory": "170Mi"}},
        **restricted_container(),
        "volumeMounts": [{"name": "configuration", "mountPath": "/etc/coredns", "readOnly": True}],
    }
    pod = {
        "serviceAccountName": DNS,
        "priorityClassName": "system-cluster-critical",
        "securityContext": {**restricted_pod()["securityContext"], "sysctls": [_ANY_PORT]},
        "dnsPolicy": "Default",
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "kubernetes.io/hostname",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": _DNS_LABELS},
            }
        ],
        "containers": [container],
        "volumes": [{"name": "configuration", "configMap": {"name": DNS}}],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata,
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": _DNS_LABELS},
            "template": {"metadata": {"labels": _DNS_LABELS}, "spec": pod},
        },
    }
