"""Provider ``embedded``: a control plane on this machine with simulated nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from trainyard.local.cluster.provider import Provider
from trainyard.local.cluster.providers.base import ClusterProvider

if TYPE_CHECKING:
    from trainyard.settings.cluster import ClusterSettings


class Embedded(ClusterProvider):
    """A control plane on this machine."""

    name = "embedded"
    order = 10
    summary = "real control plane on this machine with simulated nodes"
    needed_by_previews = True
    platform_nodes: ClassVar = {"trainyard.dev/platform": "true"}

    def open(self, settings: ClusterSettings, name: str) -> Provider:
        """Return the control plane of a name."""
        from trainyard.local.cluster.embedded import EmbeddedProvider

        return EmbeddedProvider(name)


PROVIDER: Final = Embedded()
