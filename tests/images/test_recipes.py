"""Recipes of this project: each is complete, non-root or explained, and named as the components name it."""

from __future__ import annotations

from pathlib import Path

import pytest

from components.registry import image_repositories
from tests.images.small_project import RECIPE, project
from tests.support import ROOT
from trainyard.errors import TrainyardError
from trainyard.local.images.debian_packages import read_debian_lock
from trainyard.local.images.recipe import LOCAL, read_recipes

RECIPES = read_recipes(ROOT / "images")
WITHOUT_RECIPE = {"kueue"}
"""Kueue's program is built only for its tests."""


def test_every_image_of_a_component_has_a_recipe_and_names_what_it_replaces() -> None:
    recipes = {recipe.setting: recipe for recipe in RECIPES.values() if recipe.setting is not None}
    assert recipes.keys() == image_repositories().keys() - WITHOUT_RECIPE
    for name, repository in image_repositories().items():
        if name in recipes and not repository.startswith("localhost/"):
            assert recipes[name].replaces == repository


def test_every_initializer_of_the_catalog_has_a_recipe() -> None:
    texts = "".join(file.read_text() for file in (ROOT / "runtimes").rglob("*.yaml"))
    for kind in ("dataset", "model"):
        repository = RECIPES[f"{kind}-initializer"].replaces
        assert f"image: {repository}:v2.3.0" in texts


def test_only_images_of_nodes_and_of_volumes_run_as_root() -> None:
    control_plane = {"kube-apiserver", "kube-controller-manager", "kube-scheduler", "etcd"}
    as_root = {"volume-folders", "kube-proxy", "kind-network", "kind-node"} | control_plane
    assert {name: recipe.user for name, recipe in RECIPES.items() if recipe.user != 65532} == dict.fromkeys(as_root, 0)
    exceptions = {name: set(recipe.exceptions) for name, recipe in RECIPES.items() if recipe.exceptions}
    assert exceptions == {name: {"root", "shell"} if name == "kind-node" else {"root"} for name in as_root}


def test_every_debian_package_is_pinned() -> None:
    names = {name for recipe in RECIPES.values() for layer in recipe.layers for name in layer.debian}
    assert len(read_debian_lock(ROOT / "images", "amd64", names)) == len(names)
    with pytest.raises(TrainyardError, match=r"does not pin nothing for riscv64"):
        read_debian_lock(ROOT / "images", "riscv64", ["nothing"])


def test_images_have_the_local_repository() -> None:
    assert {recipe.repository for recipe in RECIPES.values()} == {f"{LOCAL}/{name}" for name in RECIPES}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (RECIPE + "user: 0\n", "user 0 requires a reason"),
        (RECIPE + "exceptions: {root: because}\n", "user 0 requires a reason"),
        (RECIPE.replace("  - programs: {tool: /tool}", "  - {}"), "a layer has one of"),
        (RECIPE + "colour: red\n", "colour"),
        (RECIPE + "base: nothing\n", r"base/nothing\.yaml does not exist"),
    ],
)
def test_an_invalid_recipe_names_file_and_field(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(TrainyardError, match=message):
        read_recipes(project(tmp_path, {"tool": text}) / "images")


def test_recipes_need_a_checkout(tmp_path: Path) -> None:
    with pytest.raises(TrainyardError, match="run the command in a checkout"):
        read_recipes(tmp_path)
