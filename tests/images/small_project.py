"""A project with one recipe and one small program, and the builder of its image."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

from trainyard.errors import TrainyardError
from trainyard.local.images.image_build import ImageBuilder
from trainyard.local.images.layer_sources import LayerSources
from trainyard.local.images.recipe import read_recipes

RECIPE = """\
title: A program
setting: opa
replaces: docker.io/openpolicyagent/opa
version: "1.0"
layers:
  - programs: {tool: /tool}
entrypoint: [/tool]
"""
LISTING = """\
tool: go1.26.8
\tpath\texample.org/tool
\tmod\texample.org/tool\t(devel)\t
\tdep\texample.org/one\tv1.2.3\th1:abc=
\tdep\texample.org/two\tv0.1.0\th1:abc=
\t=>\texample.org/fork\tv0.2.0\th1:abc=
"""


def project(folder: Path, recipes: Mapping[str, str] | None = None, content: bytes = b"program") -> Path:
    """Write a project and return its folder."""
    (folder / "images").mkdir(parents=True)
    for name, text in (recipes or {"tool": RECIPE}).items():
        (folder / "images" / f"{name}.yaml").write_text(text)
    (folder / "tool").write_bytes(content)
    return folder


def builder(
    folder: Path, out: Path | None = None, *, shared: bool = False, compiled: list[str] | None = None
) -> ImageBuilder:
    """Return the builder of a project.

    Parameters
    ----------
    compiled
        Receives the names of the programs that it builds because they are missing; None: it builds none.
    """

    def present(name: str) -> Path:
        file = folder / name
        if not file.is_file():
            raise TrainyardError(f"{name} is not built", fix="build it")
        return file

    def program(name: str) -> Path:
        if compiled is not None and not (folder / name).is_file():
            compiled.append(name)
            (folder / name).write_bytes(b"program")
        return present(name)

    def seal(text: str) -> str:
        return hashlib.sha256(f"key {text}".encode()).hexdigest()

    sources = LayerSources(folder, folder / "cache", program, lambda place, *arguments: LISTING, seal, built=present)
    return ImageBuilder(read_recipes(folder / "images"), sources, out or folder / "out", shared=shared)
