"""Objects of users in a namespace, of every kind that the API server serves.

Deleting a namespace deletes all of them. Objects of the stack, objects of controllers, which their owners bring along,
and what Kubernetes writes into each namespace do not count.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field

from trainyard.api.constants import STACK_LABEL
from trainyard.checks.report.text import listed
from trainyard.kube.client import Client
from trainyard.kube.resource import Object, Resource
from trainyard.kube.served_resources import served_resources, served_versions

_SHOWN = 3
_DERIVED = frozenset({"Endpoints", "EndpointSlice", "Event", "Lease", "PodMetrics", "PolicyReport"})
"""Kinds that describe other objects and contain no data of users."""
_GENERATED = frozenset({("ConfigMap", "kube-root-ca.crt"), ("ServiceAccount", "default")})
_PLATFORM = frozenset({"LocalQueue", "ResourceQuota", "Role", "RoleBinding", "TenantPolicy"})
"""Kinds of the stack's objects in a tenant's namespace. The label alone does not tell: users may write it."""


@dataclass(frozen=True)
class NamespaceContents:
    """Names of the objects of users in a namespace, by kind."""

    objects: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        """Return whether there is any."""
        return any(self.objects.values())

    def __str__(self) -> str:
        return ", ".join(
            f"{len(names)} {kind} ({listed(names, _SHOWN)})" for kind, names in sorted(self.objects.items()) if names
        )


async def read_contents(client: Client, namespace: str, *, stack: str) -> NamespaceContents:
    """Read the objects of users in a namespace.

    Parameters
    ----------
    client
        The client.
    namespace
        The namespace.
    stack
        The stack, whose own objects do not count.

    Raises
    ------
    ApiError
        A kind may not be listed: then it is unknown what the namespace contains.
    """
    resources = [resource for resource in await _resources(client) if resource.kind not in _DERIVED]
    pages = await asyncio.gather(
        *(client.page(each, namespace=namespace, limit=0, metadata_only=True) for each in resources)
    )
    found: dict[str, dict[str, str]] = {}
    for resource, page in zip(resources, pages, strict=True):
        for item in page.items:
            if _is_users(resource.kind, item, stack):
                metadata = item["metadata"]
                found.setdefault(resource.kind, {})[metadata.get("uid") or metadata["name"]] = metadata["name"]
    return NamespaceContents({kind: tuple(sorted(names.values())) for kind, names in found.items()})


async def _resources(client: Client) -> list[Resource]:
    """Return the namespaced kinds that can be listed, each in one version; not every version of a group has each."""
    found: dict[tuple[str, str], Resource] = {}
    for resource in await served_resources(client, await served_versions(client)):
        if resource.namespaced:
            found.setdefault((resource.group, resource.plural), resource)
    return list(found.values())


def _is_users(kind: str, item: Object, stack: str) -> bool:
    metadata = item["metadata"]
    owned = any(owner.get("controller") for owner in metadata.get("ownerReferences") or ())
    ours = kind in _PLATFORM and (metadata.get("labels") or {}).get(STACK_LABEL) == stack
    return not (owned or ours or (kind, metadata["name"]) in _GENERATED)
