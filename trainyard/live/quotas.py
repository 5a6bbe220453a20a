"""ResourceQuotas without a status yet: the API server rejects what they count until then.

The controller manager counts a quota on a kind that is new to a cluster late: it looks for new kinds every half minute,
and counts again at its ``--resource-quota-sync-period`` (five minutes, five seconds on the embedded control plane).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from trainyard.kube import ApiError, Client, Object, Resource, WatchBrokenError

__all__ = ["COUNTING_PATIENCE", "await_counted", "refused_uncounted", "uncounted"]

COUNTING_PATIENCE = 360.0
"""Seconds after which a controller manager with default settings has counted a quota on a new kind."""
_QUOTAS = Resource("", "v1", "resourcequotas", "ResourceQuota")
_UNCOUNTED = "status unknown for quota"


def refused_uncounted(error: ApiError) -> bool:
    """Return whether a request was refused only because a quota is not counted yet."""
    return _UNCOUNTED in str(error)


async def uncounted(client: Client, *, namespace: str | None = None, stack: str | None = None) -> list[Object]:
    """Return the quotas that are not counted yet, of one namespace or of all, and of one stack only if it is named."""
    selector = f"trainyard.dev/stack={stack}" if stack else None
    quotas = await client.list(_QUOTAS, namespace=namespace, label_selector=selector)
    return [quota for quota in quotas if not _counted(quota)]


async def await_counted(client: Client, *, namespace: str | None = None, stack: str | None = None) -> bool:
    """Wait until quotas are counted, chosen as in `uncounted`.

    Returns
    -------
    bool
        Whether there was anything to wait for.
    """
    waited = False
    while pending := await uncounted(client, namespace=namespace, stack=stack):
        waited = True
        metadata = pending[0]["metadata"]
        try:
            async for event in client.watch(
                _QUOTAS, namespace=metadata["namespace"], resource_version=metadata["resourceVersion"]
            ):
                if event.kind == "DELETED" or (event.kind == "MODIFIED" and _counted(event.object)):
                    break
        except (ApiError, WatchBrokenError):
            await asyncio.sleep(0)
    return waited


def _counted(quota: Mapping[str, Any]) -> bool:
    return set(quota["spec"].get("hard", ())) <= set(quota.get("status", {}).get("used", ()))
