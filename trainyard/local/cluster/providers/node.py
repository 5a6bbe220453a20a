"""Provider ``node``: a control plane on this machine, and nodes with kubelets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import trainyard
from trainyard.local.cluster.provider import Provider
from trainyard.local.cluster.providers.base import ClusterProvider

if TYPE_CHECKING:
    from trainyard.settings.cluster import ClusterSettings


class NodeCluster(ClusterProvider):
    """A control plane on this machine, and nodes with kubelets."""

    name = "node"
    order = 15
    python_image = f"localhost/trainyard/trainyard-controller:v{trainyard.__version__}"
    summary = "real control plane on this machine, and a kubelet with containerd for each node (Linux, root)"

    def open(self, settings: ClusterSettings, name: str) -> Provider:
        """Return the cluster of a name."""
        from trainyard.local.cluster.node.node_provider import NodeProvider

        return NodeProvider(name)


PROVIDER: Final = NodeCluster()
