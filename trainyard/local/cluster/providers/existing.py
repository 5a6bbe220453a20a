"""Provider ``existing``: a cluster that Trainyard does not manage."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trainyard.local.cluster.provider import Provider
from trainyard.local.cluster.providers.base import ClusterProvider

if TYPE_CHECKING:
    from trainyard.settings.cluster import ClusterSettings


class ExistingCluster(ClusterProvider):
    """The cluster of a kubeconfig context."""

    name = "existing"
    order = 30
    summary = "an existing cluster"
    takes_context = True

    def open(self, settings: ClusterSettings, name: str) -> Provider:
        """Return the cluster of the context in the settings."""
        from trainyard.local.cluster.existing import ExistingProvider

        return ExistingProvider(name, context=settings.context, kubeconfig=settings.kubeconfig)


PROVIDER: Final = ExistingCluster()
