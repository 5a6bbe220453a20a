"""Webhook configurations: by URL or by Service, with caBundles written by the controller."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from trainyard.kube.api_errors import ApiError
from trainyard.kube.client import Client
from trainyard.kube.resource import Resource
from trainyard.local.cluster.provider import ClusterAccess

from ..common.objects import waiting_for
from .base import BeforeChangeHook, apply_with_retries


def with_client_configs(
    configuration: Mapping[str, Any], client_config: Callable[[str], dict[str, Any]]
) -> dict[str, Any]:
    """Return a webhook configuration with the client configurations of a cluster (Service or URL).

    Parameters
    ----------
    configuration
        Upstream's configuration; its client configurations name Services.
    client_config
        Returns the client configuration of a path.
    """
    webhooks = [
        {**webhook, "clientConfig": client_config(webhook["clientConfig"]["service"]["path"])}
        for webhook in configuration["webhooks"]
    ]
    return {**configuration, "webhooks": webhooks}


def excluding_namespaces(configuration: Mapping[str, Any], namespaces: tuple[str, ...]) -> dict[str, Any]:
    """Return a webhook configuration that excludes namespaces, so that no platform pod depends on its own webhook."""
    selector = {
        "matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": list(namespaces)}]
    }
    return {
        **configuration,
        "webhooks": [{**webhook, "namespaceSelector": selector} for webhook in configuration["webhooks"]],
    }


def wait_for_ca_bundles(configuration: Mapping[str, Any]) -> dict[str, Any]:
    """Return a webhook configuration that becomes ready once the controller has written every caBundle."""
    count = len(configuration["webhooks"])
    return waiting_for(configuration, *(f"{{.webhooks[{number}].clientConfig.caBundle}}" for number in range(count)))


class WebhookReadinessHook(BeforeChangeHook):
    """Waits until the API server uses the current caBundles of the webhooks of a kind.

    The API server learns of a webhook configuration by a watch. Until then it calls the webhook with the former
    caBundle and rejects the object (``certificate signed by unknown authority``).

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
        """Wait for the webhook."""
        await wait_for_webhook(client, self._resource, self._sample)


async def wait_for_webhook(
    client: Client, resource: Resource, sample: Mapping[str, Any], *, patience: float | None = None
) -> None:
    """Send dry runs until the webhook answers; a rejection by the webhook itself is left to the real write.

    Parameters
    ----------
    patience
        Seconds after which the real write is left to fail; `LAG_SECONDS` if unset.
    """
    with suppress(ApiError):
        await apply_with_retries(
            client, resource, sample, dry_run=True, is_transient=_webhook_call_failed, patience=patience
        )


def _webhook_call_failed(error: ApiError) -> bool:
    return "failed calling webhook" in error.message
