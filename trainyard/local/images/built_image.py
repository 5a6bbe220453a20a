"""Built images, and the files of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class BuiltImage:
    """An image, built or not.

    Parameters
    ----------
    name, reference
        Name of the recipe, and name and tag of the image; those of the archive if its inputs are others.
    digest, size
        Digest of the manifest, and bytes of its compressed layers; None if not built.
    unpacked_size
        Bytes of its files; 0 if not built.
    state
        ``built``, ``changed`` (its inputs are others than those of the archive) or ``missing``.
    archive, bill
        Files of the image and of its bill of materials.
    user, exceptions
        User of its process, and reason by rule that it does not follow.
    seconds
        Duration of the build; 0 if nothing was built.
    """

    name: str
    reference: str
    digest: str | None
    size: int | None
    unpacked_size: int
    state: str
    archive: Path
    bill: Path
    user: int
    exceptions: Mapping[str, str]
    seconds: float = 0.0

    def as_json(self) -> dict[str, Any]:
        """Return the image as JSON data."""
        return {
            "name": self.name,
            "reference": self.reference,
            "digest": self.digest,
            "size": self.size,
            "unpackedSize": self.unpacked_size,
            "state": self.state,
            "archive": str(self.archive),
            "bill": str(self.bill),
            "user": self.user,
            "exceptions": dict(self.exceptions),
            "seconds": round(self.seconds, 1),
        }


@dataclass(frozen=True)
class ImageFiles:
    """Files of a built image: archive, bill of materials, and record of the build."""

    folder: Path
    name: str

    @property
    def archive(self) -> Path:
        """The image."""
        return self.folder / f"{self.name}.tar"

    @property
    def bill(self) -> Path:
        """What it contains."""
        return self.folder / f"{self.name}.cdx.json"

    @property
    def record(self) -> Path:
        """The inputs from which it was built."""
        return self.folder / f"{self.name}.build.json"
