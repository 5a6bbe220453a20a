"""A cluster provider of the test: one file makes it known everywhere."""

from __future__ import annotations

from pathlib import Path

from trainyard.local.cluster.provider import ClusterAccess, ClusterStatus, NodeChanges, ProcessStatus
from trainyard.local.cluster.providers.base import ClusterProvider
from trainyard.progress import Progress
from trainyard.settings.cluster import ClusterSettings
from trainyard.settings.fabric import FabricSettings


class MirageProvider:
    """A control plane that only seems to be there."""

    def __init__(self, name: str, context: str | None) -> None:
        self.name, self.context = name, context

    def up(self, fabric: FabricSettings, progress: Progress) -> ClusterAccess:
        """Say that it is there."""
        return self.access()

    def down(self, *, delete: bool, progress: Progress) -> None:
        """Say that it is gone."""

    def status(self) -> ClusterStatus:
        """Return one process."""
        process = ProcessStatus("mirage", "1", "", None, "healthy")
        return ClusterStatus(self.name, None, (process,))

    def logs(self, process: str, lines: int) -> str:
        """Return nothing."""
        return ""

    def sync_nodes(self, fabric: FabricSettings) -> NodeChanges:
        """Change nothing."""
        return NodeChanges()

    def environment(self) -> dict[str, str]:
        """Return a variable."""
        return {"MIRAGE": self.name}

    def keep_access(self) -> None:
        """Keep nothing."""

    def access(self) -> ClusterAccess:
        """Return a kubeconfig that does not exist."""
        return ClusterAccess(self.name, Path("/nowhere"), self.context)


class Mirage(ClusterProvider):
    """A provider that finds what it seeks."""

    name = "mirage"
    order = 990
    summary = "water in the desert"
    takes_context = True

    def open(self, settings: ClusterSettings, name: str) -> MirageProvider:
        """Return the mirage of a name."""
        return MirageProvider(name, settings.context)


PROVIDER = Mirage()
