"""Browser assets: the pinned packages, their hashes and licenses, and nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.support import ROOT
from trainyard.insight.console import asset_lock
from trainyard.insight.console.asset_lock import ASSETS, CHECKERS, LOCK, PACKAGES, Package, digest, locked

TESTS = ROOT / "tests" / "console" / "assets"
OWN = {"console.css", "console.js", "icon.svg"}
"""Files of this project."""


@pytest.mark.parametrize(("packages", "folder", "own"), [(PACKAGES, ASSETS, OWN), (CHECKERS, TESTS, set())])
def test_files_are_those_of_the_pinned_packages(packages: tuple[Package, ...], folder: Path, own: set[str]) -> None:
    lock = locked(folder)
    assert {name: (each["version"], each["integrity"]) for name, each in lock.items()} == {
        package.name: (package.version, package.integrity) for package in packages
    }
    for package in packages:
        hashes = lock[package.name]["files"]
        assert set(hashes) == set(package.files)
        assert hashes == {name: digest((folder / name).read_bytes()) for name in hashes}
        assert any(name.endswith(".LICENSE") for name in hashes)
    shipped = {name for each in lock.values() for name in each["files"]}
    assert {file.name for file in folder.iterdir()} == {*shipped, *own, LOCK}


def test_an_archive_with_another_hash_is_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "npm"
    program.write_text("#!/bin/sh\nprintf x > a.tgz\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    with pytest.raises(asset_lock.TrainyardError, match=r"idiomorph 0\.8\.0 has the hash sha512-"):
        asset_lock.write(PACKAGES[1:], tmp_path / "out")


@pytest.mark.slow
def test_the_wheel_has_pages_assets_and_licenses(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    (wheel,) = tmp_path.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    folder = ROOT / "trainyard" / "console"
    files = [file for file in folder.rglob("*") if file.is_file() and "__pycache__" not in file.parts]
    assert {file.relative_to(ROOT).as_posix() for file in files} <= names
