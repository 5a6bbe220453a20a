"""Image builder with the programs of the toolchain as its sources."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from trainyard.data import project_root
from trainyard.local.cluster.build_records import seal
from trainyard.local.cluster.folders import cache_home
from trainyard.local.cluster.go import find_go
from trainyard.local.cluster.toolchain import own_program
from trainyard.local.images.image_build import ImageBuilder
from trainyard.local.images.layer_sources import LayerSources
from trainyard.local.images.recipe import read_recipes
from trainyard.progress import Progress


def image_builder(out: Path | None = None, *, build: bool = True, progress: Progress | None = None) -> ImageBuilder:
    """Return the builder of this checkout's images.

    Parameters
    ----------
    out
        Folder of the archives; None: a folder in the cache, which checkouts share.
    build
        Whether missing programs are built.
    """
    project, folder = project_root(), cache_home() / "images"
    sources = LayerSources(
        project,
        folder,
        cache(lambda name: own_program(name, build=build, progress=progress)),
        lambda place, *arguments: find_go().run(place, *arguments),
        seal,
        built=cache(lambda name: own_program(name, build=False)),
    )
    return ImageBuilder(read_recipes(project / "images"), sources, out or folder / "archives", shared=out is None)
