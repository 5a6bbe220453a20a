"""NetworkPolicies of tenants and of programs with metrics that anyone may read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from trainyard.settings.network import NetworkPolicySettings

from .workload import Workload

__all__ = ["metrics_policy", "tenant_network_policy"]

_OWN: dict[str, Any] = {"podSelector": {}}
"""All pods of the policy's namespace."""
_WEBHOOK, _METRICS = "webhook", "metrics"
"""Names of container ports."""
_DNS = [{"port": 53, "protocol": protocol} for protocol in ("UDP", "TCP")]


def tenant_network_policy(
    tenant: str, settings: NetworkPolicySettings, status_server: tuple[str, int] | None
) -> dict[str, Any]:
    """Return the policy of a tenant's namespace: its pods reach each other, those of others do not.

    Parameters
    ----------
    tenant
        Name of the tenant.
    settings
        What else is allowed.
    status_server
        Namespace and container port of the server of progress reports, if there is one.
    """
    spec: dict[str, Any] = {
        "podSelector": {},
        "policyTypes": ["Ingress"],
        "ingress": [{"from": [_OWN, *_namespaces(settings.from_namespaces)]}],
    }
    if settings.egress_to is not None:
        blocks = [{"ipBlock": {"cidr": block}} for block in settings.egress_to]
        # DNS without a peer: its pods, or a cache on the node, whose address no selector matches.
        allowed: list[dict[str, Any]] = [{"to": [_OWN, *blocks]}, {"ports": _DNS}]
        if status_server is not None:
            namespace, port = status_server
            allowed.append({"to": _namespaces([namespace]), "ports": [{"port": port, "protocol": "TCP"}]})
        spec |= {"policyTypes": ["Ingress", "Egress"], "egress": allowed}
    return _policy("tenant", tenant, spec)


def metrics_policy(workload: Workload, readers: Iterable[str]) -> dict[str, Any]:
    """Return the policy of a program: its webhooks are for all, its metrics for the pods of some namespaces.

    Probes come from the node of a pod, whose packets no policy denies.

    Parameters
    ----------
    workload
        The program.
    readers
        Namespaces of the pods.
    """

    def ports(name: str) -> list[dict[str, Any]]:
        return [{"port": workload.ports[name], "protocol": "TCP"}] if name in workload.ports else []

    allowed: list[dict[str, Any]] = []
    if webhooks := ports(_WEBHOOK):
        allowed.append({"ports": webhooks})
    if peers := _namespaces(readers):
        allowed.append({"from": peers, "ports": ports(_METRICS)})
    spec = {"podSelector": {"matchLabels": workload.selector}, "policyTypes": ["Ingress"], "ingress": allowed}
    return _policy(workload.name, workload.namespace, spec)


def _namespaces(names: Iterable[str]) -> list[dict[str, Any]]:
    return [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": name}}} for name in names]


def _policy(name: str, namespace: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": name, "namespace": namespace},
        "spec": dict(spec),
    }
