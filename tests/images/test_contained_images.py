"""Images that contain files, links and other images, optional ones, and what a build asks for."""

from __future__ import annotations

import io
import json
import tarfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.images.small_project import RECIPE, builder, project
from trainyard.errors import TrainyardError
from trainyard.local.images.built_image import BuiltImage
from trainyard.local.images.file_tree import FileEntry, FileTree
from trainyard.local.images.image_build import ImageBuilder

NODE = """\
title: A node
version: "2.0"
optional: true
layers:
  - files: {scripts: /opt, note.txt: /etc/note}
  - links: {/sbin/init: /opt/start}
  - images: {tool: var/images}
entrypoint: [/opt/start]
stopSignal: SIGRTMIN+3
"""


def node_project(folder: Path) -> Path:
    place = project(folder, {"tool": RECIPE, "node": NODE})
    (place / "images" / "scripts").mkdir()
    (place / "images" / "scripts" / "start").write_text("#!/bin/program\\n")
    (place / "images" / "note.txt").write_text("note\\n")
    return place


def content(image: BuiltImage, name: str) -> bytes:
    with tarfile.open(image.archive) as archive:
        file = archive.extractfile(name)
        assert file is not None
        return file.read()


def manifest(image: BuiltImage) -> dict[str, Any]:
    document: list[dict[str, Any]] = json.loads(content(image, "manifest.json"))
    return document[0]


def layer_files(image: BuiltImage) -> dict[str, FileEntry]:
    """Return the entries of an image's layers by path."""
    tree = FileTree()
    for layer in manifest(image)["Layers"]:
        tree.update(FileTree.from_tar(io.BytesIO(content(image, layer))))
    return dict(tree)


def test_an_image_contains_files_links_and_the_archives_of_others(tmp_path: Path) -> None:
    tool, node = builder(node_project(tmp_path / "project")).build(["node"])
    assert (tool.name, node.name) == ("tool", "node")
    files = layer_files(node)
    assert (files["opt/start"].read(), files["opt/start"].mode) == (b"#!/bin/program\\n", 0o755)
    assert (files["etc/note"].read(), files["etc/note"].mode) == (b"note\\n", 0o644)
    assert files["sbin/init"].link == "/opt/start"
    assert files["var/images/tool.tar"].read() == tool.archive.read_bytes()
    names = files["var/images/tool.names"].read().decode().splitlines()
    assert names == ["localhost/trainyard/tool:v1.0", "docker.io/openpolicyagent/opa:v1.0"]
    configuration = json.loads(content(node, manifest(node)["Config"]))
    assert configuration["config"]["StopSignal"] == "SIGRTMIN+3"


def test_an_image_is_built_again_when_one_that_it_contains_has_changed(tmp_path: Path) -> None:
    place = node_project(tmp_path / "project")
    before = builder(place).build(["node"])[1].digest
    (place / "tool").write_bytes(b"another program")
    assert builder(place).images(["node"])[0].state == "changed"
    assert builder(place).build(["node"])[1].digest != before


def test_optional_images_are_built_only_when_they_are_named(tmp_path: Path) -> None:
    assert [image.name for image in builder(node_project(tmp_path / "project")).build()] == ["tool"]


def test_optional_images_are_loaded_and_pushed_only_when_they_are_named(tmp_path: Path) -> None:
    known = builder(node_project(tmp_path / "project"))
    known.build(["node"])
    assert [image.name for image in known.archives()] == [image.name for image in known.locked()] == ["tool"]
    assert [image.name for image in known.archives(["node"])] == ["node"]


def test_a_build_of_one_image_asks_for_the_programs_of_no_other(tmp_path: Path) -> None:
    other = RECIPE.replace("tool: /tool", "other: /tool")
    place = project(tmp_path / "project", {"tool": RECIPE, "other": other})
    asked: list[str] = []
    known = builder(place, shared=True)

    def build(name: str) -> Path:
        asked.append(name)
        return place / "tool"

    def built(name: str) -> Path:
        raise TrainyardError(f"{name} is not built")

    sources = replace(known.sources, program=build, built=built)
    (image,) = ImageBuilder(known.recipes, sources, known.out, shared=True).build(["tool"])
    assert (image.state, set(asked)) == ("built", {"tool"})
