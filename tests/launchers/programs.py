"""Launchers of MPI, unpacked once from locked wheels into the program cache: ``python -m tests.launchers.programs``."""

from __future__ import annotations

import hashlib
import platform
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Final

from trainyard.data import project_root
from trainyard.local.cluster.folders import cache_home

PROGRAMS: Final = {"openmpi": "OpenMPI", "mpich": "MPICH", "impi_rt": "Intel"}
"""Distributions, and what ``mpiImplementation`` calls them."""

_UNUSED: Final = {"impi_rt": ("lib/", "opt/", "bin/IMB-")}
"""Parts that are left out: Intel MPI connects no processes without a library that is not on PyPI."""


def folder() -> Path:
    """Return the folder of the launchers as locked."""
    digest = hashlib.sha256(f"{platform.machine()}\n{_lock().read_text()}\n{_UNUSED}".encode()).hexdigest()[:16]
    return cache_home() / "toolchain" / f"launchers-{digest}"


def launcher(implementation: str) -> Path | None:
    """Return the folder of an implementation with ``bin`` and ``lib``; None: not installed."""
    found = next(folder() / name for name, known in PROGRAMS.items() if known == implementation)
    return found if (folder() / "complete").is_file() and found.is_dir() else None


def install() -> None:
    """Download the wheels, whose hashes are locked, and unpack them."""
    place = folder()
    if (place / "complete").is_file():
        return
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.parent) as temporary:
        command = [
            *(sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"),
            *("--require-hashes", "--only-binary", ":all:", "--dest", temporary, "-r", str(_lock())),
        ]
        subprocess.run(command, check=True)
        unpacked = Path(temporary) / "unpacked"
        for wheel in Path(temporary).glob("*.whl"):
            name = wheel.name.partition("-")[0]
            _unpack(wheel, unpacked / name, _UNUSED.get(name, ()))
        (unpacked / "complete").touch()
        shutil.rmtree(place, ignore_errors=True)
        unpacked.rename(place)


def _unpack(wheel: Path, target: Path, unused: tuple[str, ...]) -> None:
    with zipfile.ZipFile(wheel) as archive:
        for member in archive.infolist():
            _, data, path = member.filename.partition(".data/data/")
            if not data or member.is_dir() or path.startswith(unused or ("\0",)):
                continue
            file = target / path
            file.parent.mkdir(parents=True, exist_ok=True)
            with archive.open(member) as source, file.open("wb") as sink:
                shutil.copyfileobj(source, sink)
            file.chmod(member.external_attr >> 16 or 0o644)


def _lock() -> Path:
    return project_root() / "toolchain" / "launchers.lock"


if __name__ == "__main__":
    if platform.system() != "Linux" or platform.machine() not in ("x86_64", "aarch64"):
        print(f"No launchers of MPI for {platform.system()} {platform.machine()}: tests/launchers are skipped")
    else:
        install()
        print(f"Launchers of MPI: {folder()}")
