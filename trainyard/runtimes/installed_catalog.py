"""Installation of the catalog: read from its folders, with the stack's images."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from trainyard.runtimes.catalog import Catalog, Runtime
from trainyard.runtimes.catalog_loader import load_catalog
from trainyard.runtimes.folder import read_folder
from trainyard.runtimes.images.lock import installed, read_lock

__all__ = ["installed_catalog"]


def installed_catalog(
    folders: Iterable[Path],
    include: Sequence[str] = ("*",),
    mirrors: Mapping[str, str] | None = None,
    authored: Iterable[Runtime] = (),
) -> Catalog:
    """Read a catalog, and name its images by the digests that are locked and in the mirrors of the stack.

    Parameters
    ----------
    folders, include, authored
        See `load_catalog`.
    mirrors
        Registry, or registry and the beginning of a repository, to what replaces it.

    Raises
    ------
    TrainyardError
        The catalog, or a lock of images, has faults.
    """
    places = list(folders)
    catalog = load_catalog(places, include, authored)
    digests: dict[str, str] = {}
    for place in places:
        digests |= read_lock(read_folder(place)).digests
    return installed(catalog, digests, mirrors or {})
