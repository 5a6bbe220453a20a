"""Base class of hooks that prepare live objects once, before Pulumi changes the first of a kind."""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

import pulumi

from components.objects import FIELD_MANAGER
from trainyard.cluster import ClusterAccess
from trainyard.kube import ApiError, Client, Object, Resource

__all__ = ["AGAIN", "LAG", "Preparation", "applied", "with_spec"]

LAG = 15.0
"""Seconds for which a webhook, or the API server that calls it, may not know yet of what was made or changed."""
AGAIN = 0.2


class Preparation(ABC):
    """Brings live objects of one kind to where Pulumi can change them.

    Parameters
    ----------
    access
        The cluster.
    hook
        Name of the hook.
    """

    def __init__(self, access: ClusterAccess, hook: str) -> None:
        self._access = access
        self._hook = hook
        self._prepared = False
        self._one = asyncio.Lock()

    def binding(self) -> pulumi.ResourceHookBinding:
        """Return what runs before an object is created or changed."""
        hook = pulumi.ResourceHook(self._hook, self._before)
        return pulumi.ResourceHookBinding(before_create=[hook], before_update=[hook])

    async def _before(self, args: pulumi.ResourceHookArgs) -> None:
        async with Client.from_kubeconfig(self._access.kubeconfig, self._access.context) as client:
            async with self._one:
                if not self._prepared:
                    await self.prepare(client)
                    self._prepared = True
            await self.admitted(client, args.name.rpartition("/")[2])

    @abstractmethod
    async def prepare(self, client: Client) -> None:
        """Change what is in the way; called once, before the first object is touched."""

    async def admitted(self, client: Client, name: str) -> None:  # noqa: B027 - most kinds need not wait
        """Wait until one object would be accepted as it is to be."""


async def applied(
    client: Client,
    resource: Resource,
    body: Mapping[str, Any],
    *,
    dry_run: bool = False,
    passes: Callable[[ApiError], bool] = lambda error: True,
) -> None:
    """Apply an object, again and again while it is refused for what may pass.

    Parameters
    ----------
    dry_run
        Whether only to ask if it would be accepted.
    passes
        Whether a refusal may be gone a moment later.

    Raises
    ------
    ApiError
        It is refused for another reason, or for as long as a lag may last.
    """
    give_up = time.monotonic() + LAG
    while True:
        try:
            await client.apply(resource, body, field_manager=FIELD_MANAGER, dry_run=dry_run)
            return
        except ApiError as error:
            if not passes(error) or time.monotonic() > give_up:
                raise
        await asyncio.sleep(AGAIN)


def with_spec(resource: Resource, live: Object, spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is applied to give a live object another spec, and lets it keep its labels and annotations."""
    kept = {key: live["metadata"][key] for key in ("name", "labels", "annotations") if key in live["metadata"]}
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": kept, "spec": dict(spec)}
