"""Target cluster: everything that differs between clusters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pulumi

from trainyard.local.cluster.provider import ClusterAccess
from trainyard.local.cluster.providers import PROVIDERS
from trainyard.settings.stack import StackSettings

from .images import ImageTable
from .pod_settings import PodTable


@dataclass(frozen=True)
class Target:
    """Properties of the target cluster that components use.

    Parameters
    ----------
    access
        Access to the API server, and the addresses of webhooks.
    images
        The image table.
    pods
        Settings of the platform's own pods.
    system_namespaces
        Namespaces that the platform's webhooks exclude.
    """

    access: ClusterAccess
    images: ImageTable
    pods: PodTable = field(default_factory=PodTable)
    system_namespaces: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        settings: StackSettings,
        access: ClusterAccess,
        repositories: Mapping[str, str],
        references: Mapping[str, pulumi.Input[str]] | None = None,
    ) -> Target:
        """Return the target that the settings of a stack describe; `repositories` and `references` by image name."""
        nodes = PROVIDERS[settings.cluster.provider].platform_nodes
        namespaces = ("kube-system", *settings.platform_namespaces)
        images = ImageTable(settings.images, repositories, references or {})
        return cls(access, images, PodTable(settings.pods, nodes), namespaces)
