"""ServiceAccounts and their RBAC rules."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

_API = "rbac.authorization.k8s.io"


def service_account(name: str, namespace: str) -> dict[str, Any]:
    """Return a ServiceAccount."""
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": namespace}}


def service_account_subject(name: str, namespace: str) -> dict[str, str]:
    """Return a ServiceAccount as the subject of a binding."""
    return {"kind": "ServiceAccount", "name": name, "namespace": namespace}


def group(name: str) -> dict[str, str]:
    """Return a group as the subject of a binding."""
    return {"kind": "Group", "name": name, "apiGroup": _API}


def cluster_role(name: str, rules: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return a ClusterRole."""
    return {
        "apiVersion": f"{_API}/v1",
        "kind": "ClusterRole",
        "metadata": {"name": name},
        "rules": [dict(rule) for rule in rules],
    }


def cluster_role_binding(name: str, role_name: str, subjects: Sequence[Mapping[str, str]]) -> dict[str, Any]:
    """Return a ClusterRoleBinding to a ClusterRole."""
    return {
        "apiVersion": f"{_API}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": _API, "kind": "ClusterRole", "name": role_name},
        "subjects": [dict(subject) for subject in subjects],
    }


def role(name: str, namespace: str, rules: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return a Role."""
    return {
        "apiVersion": f"{_API}/v1",
        "kind": "Role",
        "metadata": {"name": name, "namespace": namespace},
        "rules": [dict(rule) for rule in rules],
    }


def role_binding(
    name: str, namespace: str, subjects: Sequence[Mapping[str, str]], *, kind: str = "Role"
) -> dict[str, Any]:
    """Return a RoleBinding to the Role or ClusterRole of the same name."""
    return {
        "apiVersion": f"{_API}/v1",
        "kind": "RoleBinding",
        "metadata": {"name": name, "namespace": namespace},
        "roleRef": {"apiGroup": _API, "kind": kind, "name": name},
        "subjects": [dict(subject) for subject in subjects],
    }
