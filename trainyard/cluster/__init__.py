"""Providers of a control plane: embedded (on this machine), kind, or an existing cluster."""

from __future__ import annotations

from trainyard.cluster.provider import ClusterAccess, ClusterStatus, NodeChanges, ProcessStatus, Provider
from trainyard.settings.cluster import ClusterProvider, ClusterSettings
from trainyard.settings.stack import StackSettings

__all__ = ["ClusterAccess", "ClusterStatus", "NodeChanges", "ProcessStatus", "Provider", "cluster_name", "provider"]


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
    if settings.provider is ClusterProvider.EMBEDDED:
        from trainyard.cluster.embedded import EmbeddedProvider

        return EmbeddedProvider(name)
    if settings.provider is ClusterProvider.KIND:
        from trainyard.cluster.kind import KindProvider

        return KindProvider(name)
    from trainyard.cluster.existing import ExistingProvider

    return ExistingProvider(name, context=settings.context, kubeconfig=settings.kubeconfig)
