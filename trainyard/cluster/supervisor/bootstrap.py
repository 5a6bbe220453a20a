"""What the control plane's own helpers may do: roles of the supervisor and of KWOK."""

from __future__ import annotations

from typing import Any

from trainyard.kube import Client, Resource

__all__ = ["bootstrap", "objects"]

_ROLES = Resource("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", namespaced=False)
_BINDINGS = Resource("rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False)

_READ = ["get", "list", "watch"]
_RULES: dict[str, list[dict[str, Any]]] = {
    "trainyard:supervisor": [
        {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": _READ},
        {"apiGroups": [""], "resources": ["pods"], "verbs": [*_READ, "patch"]},
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
    """Return the ClusterRoles and their bindings; the users are the common names of client certificates."""
    found: list[tuple[Resource, dict[str, Any]]] = []
    for name, rules in _RULES.items():
        labels = {"app.kubernetes.io/managed-by": "trainyard-cluster"}
        found.append(
            (
                _ROLES,
                {
                    "apiVersion": "rbac.authorization.k8s.io/v1",
                    "kind": "ClusterRole",
                    "metadata": {"name": name, "labels": labels},
                    "rules": rules,
                },
            )
        )
        binding = {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": name, "labels": labels},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name}],
        }
        found.append((_BINDINGS, binding))
    return found


async def bootstrap(client: Client) -> None:
    """Apply the roles as the administrator."""
    for resource, body in objects():
        await client.apply(resource, body, field_manager="trainyard-cluster")
