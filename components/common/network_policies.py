"""NetworkPolicies of tenants, and of programs with webhooks and metrics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from trainyard.policy.engines.vap.validating_admission_policies import TENANT_LABEL
from trainyard.settings.network import NetworkPolicySettings

from .workload import Workload

_OWN: dict[str, Any] = {"podSelector": {}}
"""All pods of the policy's namespace."""
_SYSTEM = "kube-system"
"""Its pods may bring requests of API servers into the cluster, as konnectivity's agents do."""
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
        blocks = _blocks(settings.egress_to)
        # DNS without a peer: its pods, or a cache on the node, whose address no selector matches.
        allowed: list[dict[str, Any]] = [{"to": [_OWN, *blocks]}, {"ports": _DNS}]
        if status_server is not None:
            namespace, port = status_server
            allowed.append({"to": _namespaces([namespace]), "ports": [{"port": port, "protocol": "TCP"}]})
        spec |= {"policyTypes": ["Ingress", "Egress"], "egress": allowed}
    return _policy("tenant", tenant, spec)


def program_policy(
    workload: Workload,
    *,
    webhooks_from: Iterable[str] | None,
    metrics_from: Iterable[str] | None = None,
    reports: bool = False,
) -> dict[str, Any] | None:
    """Return the policy of who reaches the webhooks and the metrics of a program, or None if everyone reaches both.

    Probes come from the node of a pod, whose packets no policy denies.

    Parameters
    ----------
    workload
        The program.
    webhooks_from
        Address blocks of the API servers; None: all addresses.
    metrics_from
        Namespaces whose pods may read metrics; None: all.
    reports
        Whether pods of tenants send progress reports to the port of its webhooks.
    """
    tenants = [{"namespaceSelector": {"matchExpressions": [{"key": TENANT_LABEL, "operator": "Exists"}]}}]
    callers = readers = None
    if webhooks_from is not None:
        callers = [*_blocks(webhooks_from), *_namespaces([_SYSTEM]), *(tenants if reports else ())]
    if metrics_from is not None:
        readers = _namespaces(metrics_from)
    peers = {_WEBHOOK: callers, _METRICS: readers}
    limited = {name: allowed for name, allowed in peers.items() if name in workload.ports}
    if all(allowed is None for allowed in limited.values()):
        return None
    ingress = [
        {**({} if allowed is None else {"from": allowed}), "ports": [{"port": workload.ports[name], "protocol": "TCP"}]}
        for name, allowed in limited.items()
        if allowed is None or allowed
    ]
    spec = {"podSelector": {"matchLabels": workload.selector}, "policyTypes": ["Ingress"], "ingress": ingress}
    return _policy(workload.name, workload.namespace, spec)


def _blocks(blocks: Iterable[str]) -> list[dict[str, Any]]:
    return [{"ipBlock": {"cidr": block}} for block in blocks]


def _namespaces(names: Iterable[str]) -> list[dict[str, Any]]:
    return [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": name}}} for name in names]


def _policy(name: str, namespace: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": name, "namespace": namespace},
        "spec": dict(spec),
    }
