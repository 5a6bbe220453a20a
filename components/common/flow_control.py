"""Priority of the trainer controller's requests in the API server (API priority and fairness).

Without these objects, all requests of service accounts outside kube-system share the priority level ``workload-low``,
including the renewal of the Lease. A burst of a tenant's pods would then delay the controller's writes, and a late
renewal ends its leadership. Upstream's ``system-leader-election`` covers kube-system only.
"""

from __future__ import annotations

from typing import Any

_API = "flowcontrol.apiserver.k8s.io/v1"
_LEASES, _REQUESTS = "trainyard-leader-election", "trainyard-controller"

# Built-in precedences: 100 system leader election, 800 kube-controller-manager, 9000 all service accounts.
_PRECEDENCE = {_LEASES: 150, _REQUESTS: 1000}


def priority_levels() -> list[dict[str, Any]]:
    """Return the priority level of Lease requests, which lends nothing, and that of all other requests (lends half)."""
    return [_level(_LEASES, shares=5, lendable=0, queues=4), _level(_REQUESTS, shares=30, lendable=50, queues=64)]


def flow_schemas(account: str, namespace: str) -> list[dict[str, Any]]:
    """Return the FlowSchemas that assign the requests of a ServiceAccount to the priority levels.

    Each namespace is a flow of its own, so that the jobs of one tenant do not queue behind those of another.
    """
    subject = {"kind": "ServiceAccount", "serviceAccount": {"name": account, "namespace": namespace}}
    leases = {
        "verbs": ["get", "create", "update", "patch"],
        "apiGroups": ["coordination.k8s.io"],
        "resources": ["leases"],
        "namespaces": [namespace],
    }
    everything = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"], "clusterScope": True}
    return [
        _schema(_LEASES, "ByUser", {"subjects": [subject], "resourceRules": [leases]}),
        _schema(
            _REQUESTS,
            "ByNamespace",
            {
                "subjects": [subject],
                "resourceRules": [everything],
                "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
            },
        ),
    ]


def _level(name: str, *, shares: int, lendable: int, queues: int) -> dict[str, Any]:
    queuing = {"queues": queues, "handSize": min(4, queues), "queueLengthLimit": 50}
    return {
        "apiVersion": _API,
        "kind": "PriorityLevelConfiguration",
        "metadata": {"name": name},
        "spec": {
            "type": "Limited",
            "limited": {
                "nominalConcurrencyShares": shares,
                "lendablePercent": lendable,
                "limitResponse": {"type": "Queue", "queuing": queuing},
            },
        },
    }


def _schema(name: str, distinguisher: str, rule: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": _API,
        "kind": "FlowSchema",
        "metadata": {"name": name},
        "spec": {
            "priorityLevelConfiguration": {"name": name},
            "matchingPrecedence": _PRECEDENCE[name],
            "distinguisherMethod": {"type": distinguisher},
            "rules": [rule],
        },
    }
