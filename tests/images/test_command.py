"""`trainyard images`: lists without building, and explains what is missing."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.support import ROOT, in_process


def images(*arguments: str, home: Path) -> tuple[int, str, str]:
    """Run the command with an empty cache."""
    done = in_process("images", *arguments, env={**os.environ, "TRAINYARD_CACHE_HOME": str(home)})
    return done.returncode, done.stdout, done.stderr


def test_the_list_has_every_recipe_and_builds_nothing(tmp_path: Path) -> None:
    code, text, _ = images("list", "-o", "json", home=tmp_path)
    found = json.loads(text)["images"]
    assert code == 0
    assert {image["name"] for image in found} == {file.stem for file in (ROOT / "images").glob("*.yaml")}
    assert {image["state"] for image in found} == {"missing"}
    of_nodes = {
        "kind-node",
        "kind-network",
        "kube-proxy",
        "etcd",
        "kube-apiserver",
        "kube-controller-manager",
        "kube-scheduler",
    }
    assert {image["name"] for image in found if image["user"] != 65532} == {"volume-folders", *of_nodes}
    assert not list((tmp_path / "images").rglob("*.tar"))


def test_the_list_shows_reference_and_state(tmp_path: Path) -> None:
    code, text, _ = images("list", "opa", home=tmp_path)
    heading, row = text.splitlines()
    assert code == 0
    assert heading.split() == ["image", "reference", "digest", "size", "state", "user", "exceptions"]
    assert row.split() == ["opa", "localhost/trainyard/opa:1.22.0", "missing", "65532"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("load",), "Fix: trainyard images build"),
        (("push", "registry.example"), "Fix: trainyard images build"),
        (("settings", "opa"), "opa is not built"),
        (("list", "other"), "There is no recipe of other"),
    ],
)
def test_a_missing_image_is_an_error_with_the_fix(tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
    code, _, errors = images(*arguments, home=tmp_path)
    assert code == 2
    assert message in errors


@pytest.mark.parametrize("command", ["build", "load", "push", "settings"])
def test_help_has_an_example(tmp_path: Path, command: str) -> None:
    code, text, _ = images(command, "--help", home=tmp_path)
    assert code == 0
    assert f"Example: trainyard images {command}" in " ".join(text.split())
