"""Resolve the images of a catalog to digests in ``images.lock``."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from trainyard.errors import TrainyardError
from trainyard.runtimes.images.image_reference import mirrored, parse_image
from trainyard.runtimes.images.lock import ImageLock
from trainyard.runtimes.images.registry import Registry, UnresolvedError

__all__ = ["Resolution", "Resolved", "locked", "resolve"]


class Resolution(StrEnum):
    """What became of one image."""

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
        As containers name it.
    asked
        Where the registry was asked: at the image's own place, or at a mirror.
    state
        Whether its digest is new, confirmed, another one than is locked, or unknown.
    digest
        The digest that is locked from now on; None where there is none.
    message
        What was found.
    """

    image: str
    asked: str
    state: Resolution
    digest: str | None
    message: str

    def as_json(self) -> dict[str, Any]:
        """Return the entry for a program."""
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
    """Ask for the digests of images.

    Parameters
    ----------
    images
        As containers name them.
    lock
        What is known; a tag that means something else now keeps the digest it was locked with.
    registry
        Whom to ask.
    mirrors
        Where a stack has registries mirrored; asked instead.
    update
        Whether a tag that moved takes its new digest.
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
        return Resolved(image, image, Resolution.UNRESOLVED, None, "is no image reference")
    asked = str(reference)
    if reference.digest is not None:
        return Resolved(image, asked, Resolution.LOCKED, reference.digest, "names its digest itself")
    try:
        digest = await registry.digest(reference)
    except UnresolvedError as error:
        if known is not None:
            return Resolved(image, asked, Resolution.LOCKED, known, f"stays as it was: {error}")
        return Resolved(image, asked, Resolution.UNRESOLVED, None, str(error))
    if known is None:
        return Resolved(image, asked, Resolution.RESOLVED, digest, "is new")
    if digest == known:
        return Resolved(image, asked, Resolution.LOCKED, known, "is confirmed")
    if update:
        return Resolved(image, asked, Resolution.RESOLVED, digest, f"replaces {known}")
    return Resolved(image, asked, Resolution.MOVED, known, f"the tag means {digest} now; --update takes it")


def locked(results: Iterable[Resolved]) -> ImageLock:
    """Return the lock that follows from answers; images that name their digest themselves need no entry."""
    digests, unresolved = {}, {}
    for each in results:
        if each.digest is None:
            unresolved[each.image] = each.message
        elif "@" not in each.image:
            digests[each.image] = each.digest
    return ImageLock(digests, unresolved)
