"""Previews without a cluster: settings and rules are checked, and every resource is planned as a creation."""

from __future__ import annotations

from pathlib import Path

import pulumi

from trainyard.cluster.provider import ClusterAccess, Provider
from trainyard.cluster.providers import PROVIDERS
from trainyard.errors import TrainyardError
from trainyard.settings import StackSettings

__all__ = ["OFFLINE_KUBECONFIG", "access_or_offline"]

OFFLINE_KUBECONFIG = Path(__file__).parent / "offline-kubeconfig.yaml"
"""Placeholder kubeconfig, because the provider would otherwise use the current context."""


def access_or_offline(cluster: Provider, name: str, settings: StackSettings) -> ClusterAccess:
    """Return the access to the cluster, or a placeholder in a preview without one.

    Parameters
    ----------
    cluster
        The provider of the stack's cluster.
    name
        Name of the cluster.
    settings
        The stack's settings. A preview needs an embedded cluster, which chooses the webhook ports.

    Raises
    ------
    TrainyardError
        The cluster does not exist, and this is not a preview or the cluster is embedded.
    """
    try:
        return cluster.access()
    except TrainyardError as error:
        if PROVIDERS[settings.cluster.provider].needed_by_previews or not pulumi.runtime.is_dry_run():
            raise
        pulumi.log.warn(f"No cluster to compare with; every resource is planned as a creation: {error}")
        return ClusterAccess(name, OFFLINE_KUBECONFIG, "offline")
