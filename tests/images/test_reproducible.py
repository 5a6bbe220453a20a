"""Real images have equal digests when they are built in another folder, umask, time zone and locale.

`make images-twice` builds all of them, `make test` those that take seconds.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import ROOT
from trainyard.errors import TrainyardError
from trainyard.local.cluster.folders import cache_home
from trainyard.local.cluster.toolchain import own_program
from trainyard.local.images.debian_packages import fetch, read_debian_lock
from trainyard.local.images.layer_sources import architecture

pytestmark = pytest.mark.slow

ALL = os.environ.get("TRAINYARD_IMAGES") == "all"
BUILD = """\
import json, os, sys
from pathlib import Path
from trainyard.local.cluster.build_records import seal
from trainyard.local.cluster.go import find_go
from trainyard.local.cluster.toolchain import own_program
from trainyard.local.images.image_build import ImageBuilder
from trainyard.local.images.layer_sources import LayerSources
from trainyard.local.images.recipe import read_recipes

project, cache, mask, names = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3], 8), sys.argv[4:]
os.umask(mask)
sources = LayerSources(project, cache, own_program, lambda place, *arguments: find_go().run(place, *arguments), seal)
built = ImageBuilder(read_recipes(project / "images"), sources, cache / "out").build(names)
print(json.dumps({image.name: image.digest for image in built}))
"""


def start(project: Path, cache: Path, mask: str, names: list[str], **variables: str) -> subprocess.Popen[str]:
    """Build images from a copy of the project with an empty cache of layers."""
    ignored = shutil.ignore_patterns(".git", ".*_cache", ".venv", "__pycache__", "tests", "results")
    shutil.copytree(ROOT, project, ignore=ignored, symlinks=True)
    for downloads in ("debian", "wheels"):
        known = cache_home() / "images" / downloads
        if known.is_dir():
            shutil.copytree(known, cache / downloads)
    return subprocess.Popen(
        [sys.executable, "-c", BUILD, project, cache, mask, *names],
        cwd=project,
        env={**os.environ, "PYTHONPATH": str(project), **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finished(process: subprocess.Popen[str]) -> dict[str, str]:
    out, errors = process.communicate(timeout=1800)
    assert process.returncode == 0, errors
    found: dict[str, str] = json.loads(out)
    return found


def test_real_images_are_reproducible(tmp_path: Path) -> None:
    names = sorted(file.stem for file in (ROOT / "images").glob("*.yaml")) if ALL else ["pause", "opa"]
    if shutil.which("cc") is None:
        pytest.skip("the image pause requires a C compiler")
    try:
        own_program("opa", build=ALL)
        fetch(read_debian_lock(ROOT / "images", architecture(), ["libc6"]), cache_home() / "images" / "debian")
    except TrainyardError as error:
        pytest.skip(f"an input of the images is missing: {error}")
    one = start(tmp_path / "one", tmp_path / "cache", "022", names, TZ="UTC", LC_ALL="C.UTF-8")
    two = start(tmp_path / "other" / "two", tmp_path / "elsewhere", "077", names, TZ="Asia/Tokyo", LC_ALL="C")
    first = finished(one)
    assert first == finished(two)
    assert first.keys() >= {"pause", "opa"}
    if ALL:
        assert first.keys() == {file.stem for file in (ROOT / "images").glob("*.yaml")}
