"""Base class of the resource hooks that prepare the cluster before Pulumi writes the first object of a kind."""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

import pulumi

from trainyard.kube.api_errors import ApiError
from trainyard.kube.client import Client
from trainyard.kube.resource import Object, Resource
from trainyard.local.cluster.provider import ClusterAccess

from ..common.objects import FIELD_MANAGER

LAG_SECONDS = 15.0
"""Seconds by which the caches of a webhook, or of the API server that calls it, may lag behind a write."""
RETRY_SECONDS = 0.2


class BeforeChangeHook(ABC):
    """Prepares the cluster once before Pulumi creates or updates objects of a kind.

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
        self._lock = asyncio.Lock()

    def binding(self) -> pulumi.ResourceHookBinding:
        """Return the hook binding for the options of each object of the kind."""
        hook = pulumi.ResourceHook(self._hook, self._before)
        return pulumi.ResourceHookBinding(before_create=[hook], before_update=[hook])

    async def _before(self, args: pulumi.ResourceHookArgs) -> None:
        async with Client.from_kubeconfig(self._access.kubeconfig, self._access.context) as client:
            async with self._lock:
                if not self._prepared:
                    await self.prepare(client)
                    self._prepared = True
            await self.wait_until_admitted(client, args.name.rpartition("/")[2])

    @abstractmethod
    async def prepare(self, client: Client) -> None:
        """Prepare the cluster; called once, before the first object is written."""

    async def wait_until_admitted(self, client: Client, name: str) -> None:  # noqa: B027 - optional
        """Wait until the API server would admit the declared object; called before each write."""


async def apply_with_retries(
    client: Client,
    resource: Resource,
    body: Mapping[str, Any],
    *,
    dry_run: bool = False,
    is_transient: Callable[[ApiError], bool] = lambda error: True,
    patience: float | None = None,
) -> None:
    """Apply an object, with retries while it is rejected for a transient reason.

    Parameters
    ----------
    dry_run
        Whether to validate without storing.
    is_transient
        Whether an error may disappear within the patience; by default any.
    patience
        Seconds; `LAG_SECONDS` if unset.

    Raises
    ------
    ApiError
        The error is not transient, or it lasts longer than the patience.
    """
    deadline = time.monotonic() + (LAG_SECONDS if patience is None else patience)
    while True:
        try:
            await client.apply(resource, body, field_manager=FIELD_MANAGER, dry_run=dry_run)
            return
        except ApiError as error:
            if not is_transient(error) or time.monotonic() > deadline:
                raise
        await asyncio.sleep(RETRY_SECONDS)


def with_spec(resource: Resource, live: Object, spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return a manifest that replaces the spec of a live object and keeps its labels and annotations."""
    kept = {key: live["metadata"][key] for key in ("name", "labels", "annotations") if key in live["metadata"]}
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": kept, "spec": dict(spec)}
