"""Container images: defaults by name, and the overrides of the settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pulumi

from trainyard.checks.finding import Finding
from trainyard.errors import TrainyardError
from trainyard.settings.platform import ImageSettings


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
