"""Catalog as installed: with the stack's mirrors, and images pinned to locked digests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from trainyard.jobs.runtimes.catalog import Catalog, Runtime
from trainyard.jobs.runtimes.catalog_loader import load_catalog
from trainyard.jobs.runtimes.folder import read_folder
from trainyard.jobs.runtimes.images.lock import installed, read_lock


def installed_catalog(
    folders: Iterable[Path],
    include: Sequence[str] = ("*",),
    mirrors: Mapping[str, str] | None = None,
    authored: Iterable[Runtime] = (),
) -> Catalog:
    """Load a catalog, with images in the stack's mirrors and pinned to locked digests.

    Parameters
    ----------
    folders, include, authored
        See `load_catalog`.
    mirrors
        Replacements by registry, or by registry and repository prefix.

    Raises
    ------
    TrainyardError
        The catalog, or an image lock, is invalid.
    """
    places = list(folders)
    catalog = load_catalog(places, include, authored)
    digests: dict[str, str] = {}
    for place in places:
        digests |= read_lock(read_folder(place)).digests
    return installed(catalog, digests, mirrors or {})
