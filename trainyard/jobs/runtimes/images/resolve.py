"""Resolve the images of a catalog to digests in ``images.lock``."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from trainyard.errors import TrainyardError
from trainyard.jobs.runtimes.images.image_reference import mirrored, parse_image
from trainyard.jobs.runtimes.images.lock import ImageLock
from trainyard.jobs.runtimes.images.registry import Registry, UnresolvedError


class ImageResolution(StrEnum):
    """Result of resolving one image."""

    RESOLVED = "resolved"
    LOCKED = "locked"
    MOVED = "moved"
    UNRESOLVED = "unresolved"


@dataclass(frozen=True)
class Resolved:
    """One image.

    Parameters
    ----------
    image
        As used in containers.
    asked
        Reference that was queried: the image itself, or its mirror.
    state
        Whether its digest is new, confirmed, different from the locked one, or unknown.
    digest
        The digest to lock; None if unresolved.
    message
        Description of the result.
    """

    image: str
    asked: str
    state: ImageResolution
    digest: str | None
    message: str

    def as_json(self) -> dict[str, Any]:
        """Return the entry as JSON data."""
        return {
            "image": self.image,
            "asked": self.asked,
            "state": self.state.value,
            "digest": self.digest,
            "message": self.message,
        }


async def resolve(
    images: Iterable[str],
    lock: ImageLock,
    registry: Registry,
    *,
    mirrors: Mapping[str, str] | None = None,
    update: bool = False,
) -> list[Resolved]:
    """Resolve the digests of images.

    Parameters
    ----------
    images
        As used in containers.
    lock
        The current lock; a moved tag keeps its locked digest.
    registry
        The registry client.
    mirrors
        A stack's mirrors; queried instead of the original registries.
    update
        Whether to lock the new digest of a moved tag.
    """
    return list(
        await asyncio.gather(
            *(_resolved(image, lock, registry, mirrors or {}, update) for image in sorted(set(images)))
        )
    )


async def _resolved(
    image: str, lock: ImageLock, registry: Registry, mirrors: Mapping[str, str], update: bool
) -> Resolved:
    known = lock.digests.get(image)
    try:
        reference = mirrored(parse_image(image), mirrors)
    except TrainyardError:
        return Resolved(image, image, ImageResolution.UNRESOLVED, None, "is not a valid image reference")
    asked = str(reference)
    if reference.digest is not None:
        return Resolved(image, asked, ImageResolution.LOCKED, reference.digest, "is pinned by its own digest")
    try:
        digest = await registry.digest(reference)
    except UnresolvedError as error:
        if known is not None:
            return Resolved(image, asked, ImageResolution.LOCKED, known, f"is unchanged: {error}")
        return Resolved(image, asked, ImageResolution.UNRESOLVED, None, str(error))
    if known is None:
        return Resolved(image, asked, ImageResolution.RESOLVED, digest, "is new")
    if digest == known:
        return Resolved(image, asked, ImageResolution.LOCKED, known, "is confirmed")
    if update:
        return Resolved(image, asked, ImageResolution.RESOLVED, digest, f"replaces {known}")
    return Resolved(
        image, asked, ImageResolution.MOVED, known, f"the tag has moved to {digest}; use --update to lock it"
    )


def locked(results: Iterable[Resolved]) -> ImageLock:
    """Return the lock of some results; images pinned by their own digest need no entry."""
    digests, unresolved = {}, {}
    for each in results:
        if each.digest is None:
            unresolved[each.image] = each.message
        elif "@" not in each.image:
            digests[each.image] = each.digest
    return ImageLock(digests, unresolved)
