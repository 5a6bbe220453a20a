"""Webhook configurations: reached by URL or by Service as the cluster needs, the caBundle left to the controller."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from components.objects import waiting_for

__all__ = ["awaited", "outside_of", "retargeted"]


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
