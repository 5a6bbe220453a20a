"""Previews without a cluster: settings and rules are checked, and every resource is planned as a creation.

They are requested by name, because a mistyped context would otherwise look like a cluster without objects.
"""

from __future__ import annotations

import os
from pathlib import Path

import pulumi

from trainyard.errors import TrainyardError
from trainyard.local.cluster.environment import NO_CLUSTER_VARIABLE
from trainyard.local.cluster.provider import ClusterAccess, Provider
from trainyard.local.cluster.providers import PROVIDERS
from trainyard.settings.stack import StackSettings

OFFLINE_KUBECONFIG = Path(__file__).parent / "offline-kubeconfig.yaml"
"""Placeholder kubeconfig, because the provider would otherwise use the current context."""


def access_or_offline(cluster: Provider, name: str, settings: StackSettings) -> ClusterAccess:
    """Return the access to the cluster, or a placeholder in a preview that is requested without one.

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
        The cluster does not exist, or it is needed and the preview is requested without it.
    """
    if os.environ.get(NO_CLUSTER_VARIABLE, "") in ("", "false"):
        if not pulumi.runtime.is_dry_run():
            cluster.keep_access()
        return cluster.access()
    if not pulumi.runtime.is_dry_run():
        raise TrainyardError(
            f"{NO_CLUSTER_VARIABLE} is set, but only a preview works without a cluster", fix="unset it"
        )
    if PROVIDERS[settings.cluster.provider].needed_by_previews:
        raise TrainyardError(
            f"A preview of an {settings.cluster.provider} cluster needs the cluster, which chooses the webhook ports",
            fix=f"run `trainyard cluster up`, then preview without --no-cluster ({NO_CLUSTER_VARIABLE} unset)",
        )
    pulumi.log.warn("No cluster to compare with; every resource is planned as a creation")
    return ClusterAccess(name, OFFLINE_KUBECONFIG, "offline")
