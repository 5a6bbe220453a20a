"""Previews without a cluster: settings and rules are checked, and every resource is planned as new."""

from __future__ import annotations

from pathlib import Path

import pulumi

from trainyard.cluster.base import ClusterAccess, Provider
from trainyard.problem import TrainyardError
from trainyard.settings import ClusterProvider, StackSettings

__all__ = ["OFFLINE_KUBECONFIG", "access_or_offline"]

OFFLINE_KUBECONFIG = Path(__file__).parent / "offline-kubeconfig.yaml"
"""Kubeconfig of no cluster: the provider must not take whatever context is current instead."""


def access_or_offline(cluster: Provider, name: str, settings: StackSettings) -> ClusterAccess:
    """Return how to reach the cluster, or in a preview that there is none.

    Parameters
    ----------
    cluster
        The provider of the stack's cluster.
    name
        Name of the cluster.
    settings
        The stack's settings. Where webhooks of an embedded cluster are served is known only when it is there.

    Raises
    ------
    TrainyardError
        There is no cluster, and this is no preview or the cluster is an embedded one.
    """
    try:
        return cluster.access()
    except TrainyardError as error:
        if settings.cluster.provider is ClusterProvider.EMBEDDED or not pulumi.runtime.is_dry_run():
            raise
        pulumi.log.warn(f"There is no cluster to compare with, so everything shows as new: {error}")
        return ClusterAccess(name, OFFLINE_KUBECONFIG, "nowhere")
