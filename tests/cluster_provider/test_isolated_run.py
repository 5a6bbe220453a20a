"""The run of the tests on real nodes: its limits, its lock, and what the part of CI does not do."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import tests.real.isolated as module
from tests.images.small_project import builder, project
from tests.real.isolated import obstacles

HOLDS_LOCK = """
import os, sys
held = {os.path.realpath(f"/proc/self/fd/{each}") for each in os.listdir("/proc/self/fd")}
sys.exit(0 if sys.argv[1] in held else 7)
"""


@pytest.fixture(autouse=True)
def _own_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_LOCK", tmp_path / "lock")
    monkeypatch.setattr(module, "_remove_groups", lambda _: None)
    monkeypatch.setattr(module.signal, "signal", lambda *_: None)


def test_the_part_of_ci_takes_five_minutes_and_all_tests_thirty() -> None:
    assert (module._SLICE_SECONDS, module._SECONDS) == (300.0, 1800.0)


def test_a_run_that_takes_too_long_is_ended(capsys: pytest.CaptureFixture[str]) -> None:
    assert module._run(["sleep", "60"], 0.1) == 124
    assert "did not end within" in capsys.readouterr().out


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_the_tests_hold_the_lock_of_their_run(tmp_path: Path) -> None:
    """Another run would start beside them if only the process that started them held it, and it was killed."""
    assert module._run([sys.executable, "-c", HOLDS_LOCK, str(tmp_path / "lock")], 20.0) == 0
    held = subprocess.run(["flock", "--nonblock", tmp_path / "lock", "true"], check=False)
    assert held.returncode == 0, "it is free afterwards"


def test_the_part_of_ci_builds_no_image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = builder(project(tmp_path))
    monkeypatch.setattr(module, "missing", lambda: [])
    monkeypatch.setattr(module, "own_program", lambda *_, **__: None)
    monkeypatch.setattr(module, "image_builder", lambda **_: builder(tmp_path))
    assert obstacles(build_images=False) == ["Images are not built: tool (missing) (fix: trainyard images build)"]
    assert [image.state for image in small.images()] == ["missing"]
    assert obstacles() == []
    assert [image.state for image in small.images()] == ["built"]
    assert obstacles(build_images=False) == []
    (tmp_path / "tool").write_bytes(b"another")
    assert obstacles(build_images=False) == ["Images are not built: tool (changed) (fix: trainyard images build)"]
