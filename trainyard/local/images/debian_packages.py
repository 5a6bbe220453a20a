"""Debian packages of images: pinned in ``images/debian.lock``, downloaded by apt, unpacked without installation."""

from __future__ import annotations

import hashlib
import io
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from trainyard.errors import TrainyardError
from trainyard.local.images.file_tree import FileTree
from trainyard.manifests.loader import load

LOCK: Final = "debian.lock"
RELOCK: Final = "run `make images-lock` on a machine with Debian 12, and review the diff"


@dataclass(frozen=True)
class DebianPackage:
    """A pinned package.

    Parameters
    ----------
    name, version, architecture
        As in its index; the architecture is ``all`` for packages without programs.
    sha256
        SHA-256 of the file.
    """

    name: str
    version: str
    architecture: str
    sha256: str


def read_debian_lock(folder: Path, architecture: str, names: Iterable[str]) -> list[DebianPackage]:
    """Return the pinned packages with these names, sorted.

    Raises
    ------
    TrainyardError
        The lock lacks the architecture or a package.
    """
    file = folder / LOCK
    document: Any = load(file.read_text(), str(file), fix=RELOCK) if file.is_file() else {}
    pinned: Mapping[str, Any] = (document or {}).get(architecture) or {}
    if missing := sorted(set(names) - set(pinned)):
        raise TrainyardError(f"{file} does not pin {', '.join(missing)} for {architecture}", fix=RELOCK)
    return [DebianPackage(name, **pinned[name]) for name in sorted(set(names))]


def fetch(packages: Iterable[DebianPackage], cache: Path) -> dict[str, Path]:
    """Return the file of each package by name, after downloading the missing ones.

    Raises
    ------
    TrainyardError
        apt is missing, or no longer has the pinned version, or a file is not the pinned one.
    """
    wanted = tuple(packages)
    files = {package.name: cache / f"{package.sha256}.deb" for package in wanted}
    missing = [package for package in wanted if _sha256(files[package.name]) != package.sha256]
    if not missing:
        return files
    apt = shutil.which("apt-get")
    if apt is None:
        names = ", ".join(package.name for package in missing)
        raise TrainyardError(
            f"The Debian packages {names} cannot be downloaded: apt-get is not on PATH",
            fix="build the images on Debian 12, or build the controller's from the Containerfile",
        )
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as folder:
        command = [apt, "download", "-q", *(f"{each.name}={each.version}" for each in missing)]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)  # noqa: S603
        if done.returncode:
            reason = " ".join(line for line in done.stderr.splitlines() if line.startswith("E:")) or done.stderr[-300:]
            raise TrainyardError(
                f"apt-get cannot download the pinned Debian packages: {reason.strip()}",
                fix=f"run `apt-get update`; if the version is gone, {RELOCK}",
            )
        found = {_sha256(file): file for file in Path(folder).glob("*.deb")}
        for package in missing:
            if package.sha256 not in found:
                raise TrainyardError(
                    f"{package.name} {package.version} does not have the SHA-256 in {LOCK}", fix=RELOCK
                )
            found[package.sha256].replace(files[package.name])
    return files


def debian_files(file: Path) -> FileTree:
    """Return the files of a package."""
    data = file.read_bytes()
    if data[:8] != b"!<arch>\n":
        raise ValueError(f"{file} is not a Debian package")
    position = 8
    while position + 60 <= len(data):
        name = data[position : position + 16].decode().strip().rstrip("/")
        size = int(data[position + 48 : position + 58])
        if name.startswith("data.tar"):
            return FileTree.from_tar(io.BytesIO(data[position + 60 : position + 60 + size]))
        position += 60 + size + size % 2
    raise ValueError(f"{file} has no files")


def _sha256(file: Path) -> str:
    if not file.is_file():
        return ""
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()
