"""Policy facts: TenantPolicy and Platform as annotations of Namespaces, for policies in the API server.

After a start, an API server needs up to half a minute to discover the kinds of CustomResourceDefinitions; until then it
rejects all requests that a policy with such a parameter matches. Namespaces are available immediately. Therefore, the
facts of a TenantPolicy are stored in its own Namespace, which CEL reads without a lookup, and those of the Platform in
a Namespace that every cluster has. ``policies/lib/tenant-policy.cel.yaml`` and ``policies/lib/platform.cel.yaml`` read
them.

The schemas limit both to 90 KB; Kubernetes limits the annotations of an object to 256 KiB.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

FACTS_PREFIX: Final = "policy.trainyard.dev/"
"""Key prefix of facts; OBJ-002 rejects facts written by anyone but the platform."""

PLATFORM_FACTS_NAMESPACE: Final = "kube-system"
"""Namespace with the Platform's facts: it exists in every cluster, and cannot be deleted."""

_UNLIMITED: Final = "unlimited"
_SEPARATOR: Final = ","


def tenant_facts(spec: Mapping[str, Any] | None) -> dict[str, str]:
    """Return the annotations of a tenant's Namespace.

    Parameters
    ----------
    spec
        ``spec`` of the TenantPolicy; None if it does not exist: without facts, creations are rejected.
    """
    if spec is None:
        return {}
    return _facts(
        {
            "queues": _joined(spec.get("queues")),
            "runtimes": _joined(spec.get("runtimes")),
            "priority-classes": _joined(spec.get("priorityClasses")),
            "service-accounts": _joined(spec.get("serviceAccounts")),
            "max-accelerators-per-job": _amount(spec.get("maxAcceleratorsPerJob")),
        }
    )


def platform_facts(spec: Mapping[str, Any] | None) -> dict[str, str]:
    """Return the annotations of the Namespace with the Platform's facts.

    Parameters
    ----------
    spec
        ``spec`` of the Platform; None if it does not exist.
    """
    if spec is None:
        return {}
    tiers = (tier for tier in _items(spec.get("tiers")) if isinstance(tier, Mapping))
    return _facts(
        {
            "leaf-queues": _joined(spec.get("leafQueues")),
            "accelerator-resources": _joined(spec.get("acceleratorResources")),
            "tiers": _joined(f"{tier.get('tier')}={tier.get('name')}" for tier in tiers),
            "scheduler-features": _joined(spec.get("schedulerFeatures")),
        }
    )


def policy_facts_in(annotations: Mapping[str, str] | None) -> dict[str, str]:
    """Return the facts among the annotations of a Namespace."""
    return {key: value for key, value in (annotations or {}).items() if key.startswith(FACTS_PREFIX)}


def _facts(values: Mapping[str, str]) -> dict[str, str]:
    return {f"{FACTS_PREFIX}{name}": value for name, value in values.items()}


def _joined(values: Any) -> str:
    """Join the strings of a list; omit those with the separator, which no object name can contain."""
    return _SEPARATOR.join(each for each in _items(values) if isinstance(each, str) and each and _SEPARATOR not in each)


def _items(values: Any) -> Iterable[Any]:
    return () if values is None or isinstance(values, str | Mapping) or not isinstance(values, Iterable) else values


def _amount(value: Any) -> str:
    """Return a limit; an invalid value allows nothing."""
    if value is None:
        return _UNLIMITED
    return str(value) if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else "0"


TENANT_FACTS: Final = frozenset(tenant_facts({}))
"""Keys of the facts of a TenantPolicy."""

PLATFORM_FACTS: Final = frozenset(platform_facts({}))
"""Keys of the facts of the Platform."""
