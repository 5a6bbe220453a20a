"""Bootstrap objects of a new control plane: roles of the supervisor and of KWOK, and a default StorageClass."""

from __future__ import annotations

from typing import Any

from trainyard.kube.client import Client
from trainyard.kube.kinds import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, STORAGE_CLASSES
from trainyard.kube.leader import LEASES
from trainyard.kube.resource import Resource

_NODE_LEASES = "kube-node-lease"
_LABELS = {"app.kubernetes.io/managed-by": "trainyard-cluster"}
_READ = ["get", "list", "watch"]
_RULES: dict[str, list[dict[str, Any]]] = {
    "trainyard:supervisor": [
        {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": _READ},
        {"apiGroups": [""], "resources": ["pods"], "verbs": [*_READ, "patch"]},
        {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["list"]},
        {"apiGroups": [""], "resources": ["configmaps", "secrets", "serviceaccounts"], "verbs": ["get"]},
        {"apiGroups": [""], "resources": ["serviceaccounts/token"], "verbs": ["create"]},
        {"apiGroups": ["apiextensions.k8s.io"], "resources": ["customresourcedefinitions"], "verbs": ["get"]},
        {
            "apiGroups": ["admissionregistration.k8s.io"],
            "resources": ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"],
            "verbs": ["get"],
        },
    ],
    "trainyard:kwok": [
        {"apiGroups": [""], "resources": ["nodes"], "verbs": _READ},
        {"apiGroups": [""], "resources": ["pods"], "verbs": [*_READ, "update", "patch", "delete"]},
        {"apiGroups": [""], "resources": ["nodes/status", "pods/status"], "verbs": ["update", "patch"]},
        {"apiGroups": ["", "events.k8s.io"], "resources": ["events"], "verbs": ["create", "update", "patch"]},
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": [*_READ, "create", "update", "patch"]},
    ],
}


def objects() -> list[tuple[Resource, dict[str, Any]]]:
    """Return the StorageClass, and the roles bound to the common names of the client certificates."""
    found: list[tuple[Resource, dict[str, Any]]] = [(STORAGE_CLASSES, _storage_class())]
    for name, rules in _RULES.items():
        found.append(
            (
                CLUSTER_ROLES,
                {
                    "apiVersion": "rbac.authorization.k8s.io/v1",
                    "kind": "ClusterRole",
                    "metadata": {"name": name, "labels": _LABELS},
                    "rules": rules,
                },
            )
        )
        binding = {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": name, "labels": _LABELS},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name}],
        }
        found.append((CLUSTER_ROLE_BINDINGS, binding))
    return found


def _storage_class() -> dict[str, Any]:
    """Return the default StorageClass; the controller manager's host-path provisioner binds claims at once."""
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {
            "name": "standard",
            "labels": _LABELS,
            "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
        },
        "provisioner": "kubernetes.io/host-path",
        "reclaimPolicy": "Delete",
        "volumeBindingMode": "Immediate",
    }


async def bootstrap(client: Client, *, storage: bool = True) -> None:
    """Apply the objects as the administrator.

    Parameters
    ----------
    storage
        Whether the StorageClass is applied: on simulated nodes, nothing reads or writes volumes.
    """
    for resource, body in objects():
        if resource == STORAGE_CLASSES and not storage:
            continue
        await client.apply(resource, body, field_manager="trainyard-cluster")


async def release_nodes(client: Client) -> None:
    """Delete the node leases of a former KWOK process.

    A new one would wait until they expire, and would ignore pods that are bound to the nodes in the meantime.
    """
    for lease in await client.list(LEASES, namespace=_NODE_LEASES):
        metadata = lease["metadata"]
        await client.delete(LEASES, metadata["name"], namespace=_NODE_LEASES, uid=metadata["uid"])
