"""Audit of a cluster: existing objects reviewed as if they were created now."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from trainyard.errors import TrainyardError
from trainyard.kube.api_errors import ApiError, TransportError
from trainyard.kube.client import Client
from trainyard.kube.kinds import NAMESPACES, PRIORITY_CLASSES
from trainyard.kube.resource import Resource
from trainyard.kube.training_kinds import CLUSTER_TRAINING_RUNTIMES, PLATFORMS, TENANT_POLICIES, TRAINING_RUNTIMES
from trainyard.manifests.documents import Source
from trainyard.policy.check.sources import Manifest, Sources
from trainyard.policy.rules.admission_rule import AdmissionRule

CLUSTER = "cluster"
"""File name of objects that exist in a cluster."""

Bodies = list[dict[str, Any]]

_SOURCE = Source(CLUSTER, "")
_CONTEXT = (
    NAMESPACES,
    TENANT_POLICIES,
    PLATFORMS,
    PRIORITY_CLASSES,
    TRAINING_RUNTIMES,
    CLUSTER_TRAINING_RUNTIMES,
)
"""Kinds that are the context of the reviewed objects."""


async def existing(client: Client, rules: Iterable[AdmissionRule]) -> tuple[Sources, Sources]:
    """Return all objects that rules evaluate, and their context.

    Parameters
    ----------
    client
        The cluster.
    rules
        The rules; kinds that the cluster does not serve are ignored.

    Returns
    -------
    tuple[Sources, Sources]
        The objects to review, and their context.

    Raises
    ------
    TrainyardError
        The cluster does not respond, or rejects a read.
    """
    evaluated = {
        Resource(match.group, match.version, match.resource, match.kind, namespaced=match.scope == "Namespaced")
        for rule in rules
        for match in rule.matches
        if "/" not in match.resource and "CREATE" in match.operations
    }
    wanted = sorted(evaluated | set(_CONTEXT), key=str)
    try:
        found = dict(zip(wanted, await asyncio.gather(*(_listed(client, each) for each in wanted)), strict=True))
    except (ApiError, TransportError) as error:
        raise TrainyardError(
            f"The cluster cannot be read: {error}", fix="check the address, and your permission to list every kind"
        ) from error
    objects = tuple(_manifest(body) for each in wanted if each in evaluated for body in found[each] or ())
    context = tuple(_manifest(body) for each in _CONTEXT for body in found[each] or ())
    return Sources(objects, notes=tuple(_notes(wanted, found))), Sources(context)


async def _listed(client: Client, resource: Resource) -> Bodies | None:
    try:
        return [dict(body) for body in await client.list(resource)]
    except ApiError as error:
        if error.not_found:
            return None
        raise


def _notes(wanted: Iterable[Resource], found: Mapping[Resource, Bodies | None]) -> Iterator[str]:
    for each in wanted:
        if found[each] is None:
            yield f"the cluster does not serve {each}"


def _manifest(body: dict[str, Any]) -> Manifest:
    return Manifest(_SOURCE, 0, (), body)
