"""Policy facts: TenantPolicy and Platform as annotations of Namespaces, for policies in the API server.

An API server maps the kinds of CustomResourceDefinitions up to half a minute after it starts; until then it rejects
whatever a policy with such a parameter matches. Namespaces it knows from its first request on. So the facts of a
TenantPolicy lie on its own Namespace, which CEL sees without a look-up, and those of the Platform on a Namespace that
every cluster has. ``policies/lib/tenant-policy.cel.yaml`` and ``policies/lib/platform.cel.yaml`` read them.

The schemas bound both to 90 KB; all annotations of an object may have 256 KiB.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

__all__ = [
    "FACTS_PREFIX",
    "PLATFORM_FACTS",
    "PLATFORM_FACTS_NAMESPACE",
    "TENANT_FACTS",
    "facts_among",
    "platform_facts",
    "tenant_facts",
]

FACTS_PREFIX: Final = "policy.trainyard.dev/"
"""Starts the key of every fact; OBJ-002 rejects whoever is not the platform and writes one."""

PLATFORM_FACTS_NAMESPACE: Final = "kube-system"
"""Carries the facts of the Platform: it exists in every cluster, and cannot be deleted."""

_UNLIMITED: Final = "unlimited"
_SEPARATOR: Final = ","


def tenant_facts(spec: Mapping[str, Any] | None) -> dict[str, str]:
    """Return the annotations of a tenant's Namespace.

    Parameters
    ----------
    spec
        ``spec`` of the TenantPolicy; None where there is none: then there are no facts, and creations are rejected.
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
    """Return the annotations of the Namespace that carries the Platform's facts.

    Parameters
    ----------
    spec
        ``spec`` of the Platform; None where there is none.
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


def facts_among(annotations: Mapping[str, str] | None) -> dict[str, str]:
    """Return the facts among the annotations of a Namespace."""
    return {key: value for key, value in (annotations or {}).items() if key.startswith(FACTS_PREFIX)}


def _facts(values: Mapping[str, str]) -> dict[str, str]:
    return {f"{FACTS_PREFIX}{name}": value for name, value in values.items()}


def _joined(values: Any) -> str:
    """Return the texts of a list; one that holds the separator is the name of no object, and is left out."""
    return _SEPARATOR.join(each for each in _items(values) if isinstance(each, str) and each and _SEPARATOR not in each)


def _items(values: Any) -> Iterable[Any]:
    return () if values is None or isinstance(values, str | Mapping) or not isinstance(values, Iterable) else values


def _amount(value: Any) -> str:
    """Return a ceiling; what is no number allows nothing."""
    if value is None:
        return _UNLIMITED
    return str(value) if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else "0"


TENANT_FACTS: Final = frozenset(tenant_facts({}))
"""Keys of the facts of a TenantPolicy."""

PLATFORM_FACTS: Final = frozenset(platform_facts({}))
"""Keys of the facts of the Platform."""
