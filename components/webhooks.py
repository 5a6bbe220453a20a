"""Webhook configurations: by URL or by Service, with the caBundle left to the controller."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from components.hooks.base import Preparation, applied
from components.objects import waiting_for
from trainyard.cluster import ClusterAccess
from trainyard.kube import ApiError, Client, Resource

__all__ = ["TrustedWebhooks", "awaited", "outside_of", "retargeted"]


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
    the former one: it trusts no authority then, and refuses the object (``certificate signed by unknown authority``).

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
        with suppress(ApiError):
            await applied(client, self._resource, self._sample, dry_run=True, passes=_calls_no_webhook)


def _calls_no_webhook(error: ApiError) -> bool:
    return "failed calling webhook" in error.message
