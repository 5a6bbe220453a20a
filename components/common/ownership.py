"""Objects that exist already in the cluster, and the stack that created each."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from trainyard.api.constants import ADOPTED_ANNOTATION, STACK_LABEL
from trainyard.errors import TrainyardError
from trainyard.kube.api_errors import ApiError, TransportError
from trainyard.kube.client import Client
from trainyard.kube.credentials import Connection, kubeconfig
from trainyard.kube.resource import Object, Resource
from trainyard.local.cluster.provider import ClusterAccess

from .threads import run_in_thread

CLUSTER_KINDS: dict[tuple[str, str], str] = {
    ("v1", "Namespace"): "namespaces",
    ("v1", "Node"): "nodes",
    ("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration"): "mutatingwebhookconfigurations",
    ("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration"): "validatingwebhookconfigurations",
    ("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy"): "validatingadmissionpolicies",
    ("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicyBinding"): "validatingadmissionpolicybindings",
    ("apiextensions.k8s.io/v1", "CustomResourceDefinition"): "customresourcedefinitions",
    ("flowcontrol.apiserver.k8s.io/v1", "FlowSchema"): "flowschemas",
    ("flowcontrol.apiserver.k8s.io/v1", "PriorityLevelConfiguration"): "prioritylevelconfigurations",
    ("rbac.authorization.k8s.io/v1", "ClusterRole"): "clusterroles",
    ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding"): "clusterrolebindings",
    ("scheduling.k8s.io/v1", "PriorityClass"): "priorityclasses",
}
"""Plural of each cluster-scoped kind of Kubernetes that the program declares or reads; components declare theirs."""

NAMESPACED_KINDS: dict[tuple[str, str], str] = {
    ("v1", "ConfigMap"): "configmaps",
    ("v1", "ResourceQuota"): "resourcequotas",
    ("v1", "Service"): "services",
    ("v1", "ServiceAccount"): "serviceaccounts",
    ("apps/v1", "Deployment"): "deployments",
    ("networking.k8s.io/v1", "NetworkPolicy"): "networkpolicies",
    ("policy/v1", "PodDisruptionBudget"): "poddisruptionbudgets",
    ("rbac.authorization.k8s.io/v1", "Role"): "roles",
    ("rbac.authorization.k8s.io/v1", "RoleBinding"): "rolebindings",
}
"""Plural of each namespaced kind of Kubernetes that the program declares; components declare theirs."""


Address = tuple[str, str, str, str]
"""API version, kind, namespace (empty for cluster-scoped kinds) and name."""

Found = dict[Address, Mapping[str, Any]]
"""Metadata of objects, by address."""


@dataclass(frozen=True)
class LiveObjects:
    """Metadata of the objects that exist, by address."""

    metadata: Mapping[Address, Mapping[str, Any]]

    def names(self, api_version: str, kind: str) -> set[str]:
        """Return the names of the cluster-scoped objects of a kind."""
        return {name for version, each, _, name in self.metadata if (version, each) == (api_version, kind)}

    def labels(self, api_version: str, kind: str) -> dict[str, Mapping[str, str]]:
        """Return the labels of the cluster-scoped objects of a kind, by name."""
        return {
            name: metadata.get("labels") or {}
            for (version, each, _, name), metadata in self.metadata.items()
            if (version, each) == (api_version, kind)
        }

    def owned(self, stack: str, api_version: str, kind: str) -> set[str]:
        """Return the names of the cluster-scoped objects of a kind that belong to a stack."""
        return {
            name
            for (version, each, _, name), metadata in self.metadata.items()
            if (version, each) == (api_version, kind) and metadata.get("labels", {}).get(STACK_LABEL) == stack
        }

    def adopted(self, stack: str, api_version: str, kind: str) -> set[str]:
        """Return the names of the cluster-scoped objects of a kind that a stack has taken over."""
        return {
            name
            for name in self.owned(stack, api_version, kind)
            if ADOPTED_ANNOTATION in self.metadata[api_version, kind, "", name].get("annotations", {})
        }

    def created(self, stack: str, api_version: str, kind: str) -> set[str]:
        """Return the names of the cluster-scoped objects of a kind that a stack has created, and not adopted."""
        return {
            name
            for (version, each, _, name), metadata in self.metadata.items()
            if (version, each) == (api_version, kind) and _is_ours(metadata, stack)
        }


def list_live_objects(
    access: ClusterAccess,
    stack: str,
    namespaces: Collection[str],
    cluster_kinds: Mapping[tuple[str, str], str],
    namespaced_kinds: Mapping[tuple[str, str], str],
) -> LiveObjects:
    """Return the objects that exist, metadata only.

    Parameters
    ----------
    access
        The cluster.
    stack
        Value of this stack's label; namespaces that carry it contain no foreign objects and are skipped.
    namespaces
        Namespaces that the program declares.
    cluster_kinds, namespaced_kinds
        Plural of each kind that the program declares or reads, by API version and kind.

    Raises
    ------
    TrainyardError
        The API server is unreachable, or rejects the requests.
    """

    async def read(client: Client) -> Found:
        found = await _lists(client, cluster_kinds)
        others = [
            name
            for (_, kind, _, name), metadata in found.items()
            if kind == "Namespace" and name in namespaces and not _is_ours(metadata, stack)
        ]
        for name in others:
            found |= await _lists(client, namespaced_kinds, name)
        return found

    return _read(access, read)


def list_owned_objects(
    access: ClusterAccess, stack: str, namespaced_kinds: Mapping[tuple[str, str], str]
) -> LiveObjects:
    """Return the namespaced objects with the label of a stack in all namespaces; as `list_live_objects`."""
    selector = f"{STACK_LABEL}={stack}"
    return _read(access, lambda client: _lists(client, namespaced_kinds, "", label_selector=selector))


def _read(access: ClusterAccess, read: Callable[[Client], Awaitable[Found]]) -> LiveObjects:
    return run_in_thread(lambda: _connected(kubeconfig(access.kubeconfig, access.context), read))


async def _connected(connection: Connection, read: Callable[[Client], Awaitable[Found]]) -> LiveObjects:
    try:
        async with Client(connection, user_agent="trainyard-program") as client:
            return LiveObjects(await read(client))
    except ApiError as error:
        raise TrainyardError(
            f"The API server rejects a list request: {error}",
            fix="use credentials with permission to list the platform's kinds",
        ) from error
    except TransportError as error:
        raise TrainyardError(
            f"The API server {connection.server} is unreachable: {error}",
            fix="start the cluster (`trainyard cluster up`) or correct the kubeconfig",
        ) from error


def _is_ours(metadata: Mapping[str, Any], stack: str) -> bool:
    adopted = metadata.get("annotations", {}).get(ADOPTED_ANNOTATION) == "true"
    return metadata.get("labels", {}).get(STACK_LABEL) == stack and not adopted


async def _lists(
    client: Client,
    kinds: Mapping[tuple[str, str], str],
    namespace: str | None = None,
    *,
    label_selector: str | None = None,
) -> Found:
    """List kinds, metadata only; namespace None: they are cluster-scoped, empty: in all namespaces."""
    answers = await asyncio.gather(
        *(_list(client, kind, plural, namespace, label_selector) for kind, plural in kinds.items())
    )
    return {
        (*kind, item["metadata"].get("namespace", ""), item["metadata"]["name"]): item["metadata"]
        for kind, items in zip(kinds, answers, strict=True)
        for item in items
    }


async def _list(
    client: Client, kind: tuple[str, str], plural: str, namespace: str | None, label_selector: str | None
) -> tuple[Object, ...]:
    group, _, version = kind[0].rpartition("/")
    resource = Resource(group, version, plural, kind[1], namespaced=namespace is not None)
    try:
        page = await client.page(
            resource, namespace=namespace or None, label_selector=label_selector, limit=0, metadata_only=True
        )
        return page.items
    except ApiError as error:
        if error.not_found:
            return ()
        raise
