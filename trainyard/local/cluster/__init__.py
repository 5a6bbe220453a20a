"""Control planes; `providers` has one module for each provider."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainyard.local.cluster.provider import Provider
from trainyard.local.cluster.providers import PROVIDERS

if TYPE_CHECKING:
    from trainyard.settings.cluster import ClusterSettings
    from trainyard.settings.stack import StackSettings


def cluster_name(settings: StackSettings, stack: str) -> str:
    """Return the name of a stack's cluster: its setting, else the stack's name."""
    return settings.cluster.name or stack


def provider(settings: ClusterSettings, name: str) -> Provider:
    """Return the provider that settings choose.

    Parameters
    ----------
    settings
        The stack's cluster settings.
    name
        Name of the cluster.
    """
    return PROVIDERS[settings.provider].open(settings, name)
