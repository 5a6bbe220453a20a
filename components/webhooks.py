"""Webhook configurations: reached by URL or by Service as the cluster needs, the caBundle left to the controller."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any

from components.objects import FIELD_MANAGER, waiting_for
from components.preparation import Preparation
from trainyard.cluster import ClusterAccess
from trainyard.kube import ApiError, Client, Resource

__all__ = ["TrustedWebhooks", "awaited", "outside_of", "retargeted"]

_LAG = 15.0
"""Seconds for which the API server may not know yet what a webhook configuration says."""
_AGAIN = 0.1


def retargeted(configuration: Mapping[str, Any], client_config: Callable[[str], dict[str, Any]]) -> dict[str, Any]:
    """Return a webhook configuration whose webhooks are reached as a cluster needs it.

    Parameters
    ----------
    configuration
        With Services in its client configurations.
    client_config
        Gives the client configuration of a path.
    """
    webhooks = [
        {**webhook, "clientConfig": client_config(webhook["clientConfig"]["service"]["path"])}
        for webhook in configuration["webhooks"]
    ]
    return {**configuration, "webhooks": webhooks}


def outside_of(configuration: Mapping[str, Any], namespaces: tuple[str, ...]) -> dict[str, Any]:
    """Return a webhook configuration that leaves namespaces alone: no platform pod waits for its own webhook."""
    selector = {
        "matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": list(namespaces)}]
    }
    return {
        **configuration,
        "webhooks": [{**webhook, "namespaceSelector": selector} for webhook in configuration["webhooks"]],
    }


def awaited(configuration: Mapping[str, Any]) -> dict[str, Any]:
    """Return a webhook configuration that is ready once the controller has written every caBundle."""
    count = len(configuration["webhooks"])
    return waiting_for(configuration, *(f"{{.webhooks[{number}].clientConfig.caBundle}}" for number in range(count)))


class TrustedWebhooks(Preparation):
    """Lets objects that webhooks judge be made: waits until the API server knows the caBundles of those webhooks.

    A configuration may be written while the API server, which learns of it by a watch, still calls the webhook with
    the former one: it trusts nobody then, and refuses the object (``certificate signed by unknown authority``).

    Parameters
    ----------
    access
        The cluster.
    resource
        Kind of the objects.
    sample
        One of them.
    """

    def __init__(self, access: ClusterAccess, resource: Resource, sample: Mapping[str, Any]) -> None:
        super().__init__(access, f"webhooks-of-{resource.plural}")
        self._resource = resource
        self._sample = sample

    async def prepare(self, client: Client) -> None:
        """Ask in dry runs until a webhook answers; what it answers is for the object itself to find out."""
        give_up = time.monotonic() + _LAG
        while True:
            try:
                await client.apply(self._resource, self._sample, field_manager=FIELD_MANAGER, dry_run=True)
                return
            except ApiError as error:
                if "failed calling webhook" not in error.message or time.monotonic() > give_up:
                    return
            await asyncio.sleep(_AGAIN)
