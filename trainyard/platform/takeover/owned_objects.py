"""Live objects with the label of a stack, of the kinds that the API server serves."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Collection

from trainyard.api.constants import STACK_LABEL
from trainyard.kube.api_errors import ApiError
from trainyard.kube.client import Client
from trainyard.kube.resource import Object, Resource
from trainyard.kube.served_resources import served_resources, served_versions
from trainyard.platform.takeover.former_objects import is_managed

_DERIVED = frozenset({"Endpoints", "EndpointSlice"})
"""Kinds to which controllers copy the labels of a Service."""


async def read_owned(client: Client, stack: str, kinds: Collection[tuple[str, str]] | None = None) -> list[Object]:
    """Return the metadata of the objects of a stack, those of controllers left out.

    An object with the label of which no field is the stack's is a copy, such as of ``kubectl get -o yaml``.

    Parameters
    ----------
    client
        The client.
    stack
        Value of the stack's label.
    kinds
        API version and kind of what is read, those that are not served left out; None: all. An aggregated API that is
        down, or a kind that may not be listed, then does not matter.

    Raises
    ------
    ApiError
        A kind may not be listed.
    """
    resources: dict[tuple[str, str], Resource] = {}
    versions = None if kinds is None else {version for version, _ in kinds}
    served = [each for each in await served_versions(client) if versions is None or each in versions]
    for each in itertools.chain(*await asyncio.gather(*(_served(client, version) for version in served))):
        if each.kind not in _DERIVED and (kinds is None or (each.api_version, each.kind) in kinds):
            resources.setdefault((each.group, each.plural), each)
    pages = await asyncio.gather(*(_listed(client, each, f"{STACK_LABEL}={stack}") for each in resources.values()))
    return [
        body for items in pages for body in items if is_managed(body) and not body["metadata"].get("ownerReferences")
    ]


async def _served(client: Client, version: str) -> list[Resource]:
    try:
        return await served_resources(client, [version])
    except ApiError as error:
        if error.not_found:  # the last kind of the group has been deleted, which the list of groups follows later
            return []
        raise


async def _listed(client: Client, resource: Resource, selector: str) -> tuple[Object, ...]:
    try:
        return (await client.page(resource, label_selector=selector, limit=0, metadata_only=True)).items
    except ApiError as error:
        if error.not_found:  # the kind has been deleted meanwhile
            return ()
        raise
