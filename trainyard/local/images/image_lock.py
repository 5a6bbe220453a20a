"""Image lock and settings of built images."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from trainyard.atomic_write import write_text
from trainyard.errors import TrainyardError
from trainyard.local.images.recipe import LOCAL
from trainyard.manifests.dump import dump

_HEADING: Final = "# Digest of each built image. Written by `trainyard images build`.\n"


@dataclass(frozen=True)
class LockedImage:
    """A built image.

    Parameters
    ----------
    name, reference, digest
        Name of the recipe, name and tag, digest of the manifest.
    setting
        Name in ``images:`` of the settings, if any.
    replaces
        Upstream repository with the same programs, if any.
    """

    name: str
    reference: str
    digest: str
    setting: str | None = None
    replaces: str | None = None


def moved(reference: str, registry: str) -> str:
    """Return the reference of a built image in a registry: the repository prefix is replaced, the name is kept."""
    prefix = registry.rstrip("/")
    if not prefix or "://" in prefix or any(sign in prefix for sign in "@ "):
        raise TrainyardError(f"{registry!r} is not a registry", fix="use HOST[:PORT][/PREFIX], without https://")
    host = prefix.partition("/")[0]
    if host != "localhost" and not any(sign in host for sign in ".:"):
        raise TrainyardError(
            f"{registry!r} is not a registry",
            fix=f"a name without a dot needs a port, such as {host}:443; Docker Hub is docker.io/USER",
        )
    return f"{prefix}{reference.removeprefix(LOCAL)}"


def write_lock(folder: Path, images: Iterable[LockedImage]) -> Path:
    """Write ``images.lock``, in the format of the lock of a runtime catalog, and return its path."""
    file = folder / "images.lock"
    entries = {image.reference: image.digest for image in sorted(images, key=lambda image: image.reference)}
    write_text(file, _HEADING + dump({"images": entries}, sort_keys=True))
    return file


def settings_fragment(images: Iterable[LockedImage], registry: str | None = None) -> str:
    """Return the settings of a stack that use built images.

    Parameters
    ----------
    images
        The images.
    registry
        Where they were pushed; None: they are loaded on the nodes. Then tags are used: only a pull finds digests.
    """
    chosen: dict[str, Mapping[str, Any]] = {}
    mirrors: dict[str, str] = {}
    for image in images:
        reference = image.reference if registry is None else moved(image.reference, registry)
        repository, _, tag = reference.rpartition(":")
        if image.setting is not None:
            digest = {"digest": image.digest} if registry is not None else {}
            chosen[image.setting] = {"repository": repository, "tag": tag, **digest}
        elif image.replaces is not None:
            mirrors[image.replaces] = repository
    document: dict[str, Any] = {"trainyard:images": chosen} if chosen else {}
    if mirrors:
        document["trainyard:runtimes"] = {"mirrors": mirrors}
    return dump({"config": document}, sort_keys=True)
