"""Target cluster: everything that differs between clusters, and the images of its programs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pulumi

from trainyard.checks.finding import Finding
from trainyard.errors import TrainyardError
from trainyard.local.cluster.provider import ClusterAccess
from trainyard.local.cluster.providers import PROVIDERS
from trainyard.settings.platform import ImageSettings
from trainyard.settings.stack import StackSettings

from .pod_settings import PodTable


@dataclass(frozen=True)
class ImageTable:
    """Resolves image names to references.

    Parameters
    ----------
    replacements
        Overrides by image name.
    repositories
        Repository by image name, as the components declare them. The controller's image is built from the Containerfile
        and is in no public registry.
    references
        Whole references by image name, which may be outputs of other resources; they precede the replacements.

    Raises
    ------
    TrainyardError
        The settings name an image that no component uses.
    """

    replacements: Mapping[str, ImageSettings]
    repositories: Mapping[str, str]
    references: Mapping[str, pulumi.Input[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        unknown = sorted({*self.replacements, *self.references} - set(self.repositories))
        if unknown:
            known = ", ".join(self.repositories)
            raise TrainyardError(
                "The settings override images that no component uses",
                findings=[
                    Finding(f"trainyard:images.{name}", "unknown image", f"use one of {known}") for name in unknown
                ],
            )

    def reference(self, name: str, tag: str) -> pulumi.Input[str]:
        """Return the reference of an image.

        Parameters
        ----------
        name
            Name in the table.
        tag
            Tag of the component's version; kept beside a digest, for readability.
        """
        if name in self.references:
            return self.references[name]
        chosen = self.replacements.get(name, ImageSettings())
        reference = f"{chosen.repository or self.repositories[name]}:{chosen.tag or tag}"
        return f"{reference}@{chosen.digest}" if chosen.digest else reference


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
