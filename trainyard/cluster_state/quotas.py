"""ResourceQuotas without a status: until they are counted, the API server rejects the objects that they limit.

The controller manager counts quotas on newly installed kinds late: it discovers kinds every half minute, and recounts
at its ``--resource-quota-sync-period`` (default five minutes; five seconds on the embedded control plane).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from trainyard.kube.api_errors import ApiError, WatchBrokenError
from trainyard.kube.client import Client
from trainyard.kube.kinds import RESOURCE_QUOTAS
from trainyard.kube.resource import Object

COUNTING_PATIENCE = 360.0
"""Seconds within which a controller manager with default settings counts a quota on a new kind."""
_PAUSE = 0.5
"""Seconds between a watch that was rejected and the next list."""
_UNCOUNTED = "status unknown for quota"


def is_uncounted_error(error: ApiError) -> bool:
    """Return whether a request was rejected only because a quota is not counted yet."""
    return _UNCOUNTED in str(error)


async def list_uncounted(client: Client, *, namespace: str | None = None, stack: str | None = None) -> list[Object]:
    """Return the quotas that are not counted yet, in one or all namespaces, of one or all stacks."""
    selector = f"trainyard.dev/stack={stack}" if stack else None
    quotas = await client.list(RESOURCE_QUOTAS, namespace=namespace, label_selector=selector)
    return [quota for quota in quotas if not _counted(quota)]


async def wait_until_counted(client: Client, *, namespace: str | None = None, stack: str | None = None) -> bool:
    """Wait until quotas are counted; parameters as for `list_uncounted`.

    Returns
    -------
    bool
        Whether it had to wait.
    """
    waited = False
    while pending := await list_uncounted(client, namespace=namespace, stack=stack):
        waited = True
        metadata = pending[0]["metadata"]
        try:
            async for event in client.watch(
                RESOURCE_QUOTAS,
                namespace=metadata["namespace"],
                resource_version=metadata["resourceVersion"],
                # Others of the namespace may have been counted since this version.
                field_selector=f"metadata.name={metadata['name']}",
            ):
                if event.kind == "DELETED" or (event.kind == "MODIFIED" and _counted(event.object)):
                    break
        except (ApiError, WatchBrokenError):
            await asyncio.sleep(_PAUSE)
    return waited


def _counted(quota: Mapping[str, Any]) -> bool:
    return set(quota["spec"].get("hard", ())) <= set(quota.get("status", {}).get("used", ()))
