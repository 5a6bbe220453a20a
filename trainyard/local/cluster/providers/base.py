"""Declaration of a cluster provider."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar

from trainyard.local.cluster.provider import Provider

if TYPE_CHECKING:
    from trainyard.settings.cluster import ClusterSettings


class ClusterProvider:
    """A cluster provider.

    Settings are validated with these declarations, so a module that declares one imports large dependencies in `open`.
    """

    name: ClassVar[str]
    """Name in the settings."""
    order: ClassVar[int]
    """Position in texts for users; unique."""
    summary: ClassVar[str]
    """What it provides, for the reference of the settings."""
    takes_context: ClassVar[bool] = False
    """Whether the settings name the context of a kubeconfig, and may name its file."""
    takes_node_image: ClassVar[bool] = False
    """Whether the settings may name the image of its nodes."""
    needed_by_previews: ClassVar[bool] = False
    """Whether a preview requires the cluster, because the cluster chooses the host ports of the webhooks."""
    platform_nodes: ClassVar[Mapping[str, str]] = MappingProxyType({})
    """Labels of the nodes for the platform's own pods; empty: any node."""

    python_image: ClassVar[str | None] = None
    """Image with Python that its nodes have, for the smoke job; None: the containers of the nodes are simulated, or
    pull the image of the runtime."""

    def open(self, settings: ClusterSettings, name: str) -> Provider:
        """Return the control plane of a name.

        Parameters
        ----------
        settings
            The stack's cluster settings.
        name
            Name of the cluster.
        """
        raise NotImplementedError
