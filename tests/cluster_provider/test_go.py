"""Which Go compiler builds the programs."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from trainyard.local.cluster.go import find_go


def compiler(folder: Path, version: str) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "go"
    file.write_text(f"#!/bin/sh\necho go version go{version} linux/amd64\n")
    file.chmod(0o755)
    return str(file)


@pytest.mark.parametrize("first", ["path", "environment"])
def test_every_process_of_a_run_finds_the_same_compiler(
    first: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Go was installed after the environment was made: processes of Pulumi have the environment first on PATH."""
    own, later = tmp_path / "venv" / "bin", tmp_path / "later"
    expected = compiler(own, "1.26.6")
    compiler(later, "1.26.8")
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "venv"))
    monkeypatch.setenv("PATH", f"{later}:{own}" if first == "path" else f"{own}:{later}")
    assert (find_go().path, find_go().version) == (expected, "go1.26.6")


def test_go_on_path_is_found_without_a_virtual_environment_and_instead_of_an_older_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, later = tmp_path / "usr" / "bin", tmp_path / "later"
    compiler(own, "1.26.6")
    expected = compiler(later, "1.26.8")
    monkeypatch.setenv("PATH", f"{later}:{own}")
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "usr"))
    monkeypatch.setattr(sys, "base_prefix", str(tmp_path / "usr"))
    assert find_go().path == expected
    monkeypatch.setattr(sys, "base_prefix", "/elsewhere")
    compiler(own, "1.19.0")
    assert find_go().path == expected
