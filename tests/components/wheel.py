"""The project as a wheel, in a folder of its own: no file of the clone can be imported beside it."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def build(folder: Path) -> Path:
    """Build the wheel and return the folder of its packages."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    packages = folder / "packages"
    zipfile.ZipFile(wheel).extractall(packages)
    return packages


def run(
    packages: Path, program: str | Path, folder: Path, *args: str, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run a program with the wheel and the installed dependencies; without site, nothing adds the clone to the path."""
    path = os.pathsep.join([str(packages), sysconfig.get_path("purelib")])
    environment = {**os.environ, "PYTHONPATH": path, **variables}
    return subprocess.run(
        [sys.executable, "-S", "-P", str(program), *args],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
