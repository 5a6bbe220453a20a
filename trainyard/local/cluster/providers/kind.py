"""Provider ``kind``: one container per node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import trainyard
from trainyard.local.cluster.provider import Provider
from trainyard.local.cluster.providers.base import ClusterProvider

if TYPE_CHECKING:
    from trainyard.settings.cluster import ClusterSettings


class KindCluster(ClusterProvider):
    """A kind cluster on this machine."""

    name = "kind"
    order = 20
    summary = "Kubernetes in containers"
    takes_node_image = True
    python_image = f"localhost/trainyard/trainyard-controller:v{trainyard.__version__}"

    def open(self, settings: ClusterSettings, name: str) -> Provider:
        """Return the kind cluster of a name."""
        from trainyard.local.cluster.kind import KindProvider

        return KindProvider(name, settings.node_image)


PROVIDER: Final = KindCluster()
