"""Lock of the browser assets: npm packages with their versions and hashes, and the files that are shipped.

`make console-assets` writes files and lock. Nothing is fetched when the console runs.
"""

from __future__ import annotations

import base64
import hashlib
import json
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from trainyard.errors import TrainyardError

_HERE: Final = Path(__file__).resolve().parent
ASSETS: Final = _HERE / "assets"
"""Folder of the shipped files."""
_TESTS: Final = _HERE.parent.parent / "tests" / "console" / "assets"
LOCK: Final = "assets.lock.json"


@dataclass(frozen=True)
class Package:
    """A pinned npm package.

    Parameters
    ----------
    name, version
        Its name and version.
    integrity
        Hash of its archive, as the registry publishes it (``sha512-…``).
    files
        File in the archive by name of the shipped file.
    """

    name: str
    version: str
    integrity: str
    files: dict[str, str]


PACKAGES: Final = (
    Package(
        "htmx.org",
        "2.0.11",
        "sha512-Thx/WtpeOQqSrqBCw/A1cwGJGg4UrVa3+sW0GmrM3p4gJgO89ecH4qtbnyzDDWFvBTqjnIMCgELTNt636dtamA==",
        {"htmx.min.js": "dist/htmx.min.js", "htmx.LICENSE": "LICENSE"},
    ),
    Package(
        "idiomorph",
        "0.8.0",
        "sha512-R47JBL+6jHDQvcnbppIUtXXcxi5h6+wuCEEZXnRhUltsgzPFKzThL5PuHppP9ypJuy+7WawcY1TsSBD/iQbMhw==",
        {"idiomorph.min.js": "dist/idiomorph-ext.min.js", "idiomorph.LICENSE": "LICENSE"},
    ),
)
"""Packages of the pages."""
CHECKERS: Final = (
    Package(
        "axe-core",
        "4.14.1",
        "sha512-FHfa+lmNjQZfJz1q8wKqIDwC6DExcHt/pkjNQb09a3NPjCKg2rhu5qb2S4r76ASyFNNtuFooJpZe37OgudVGtQ==",
        {"axe.min.js": "axe.min.js", "axe.LICENSE": "LICENSE"},
    ),
)
"""Packages of the tests; they are not shipped."""


def digest(content: bytes) -> str:
    """Return the hash of a file as npm and browsers write it."""
    return f"sha512-{base64.b64encode(hashlib.sha512(content).digest()).decode()}"


def locked(folder: Path = ASSETS) -> dict[str, Any]:
    """Return the lock of a folder: packages, and the hash of each file."""
    content: dict[str, Any] = json.loads((folder / LOCK).read_text(encoding="utf-8"))
    return content


def write(packages: tuple[Package, ...], folder: Path) -> None:
    """Fetch packages with npm and write their files and the lock.

    Raises
    ------
    TrainyardError
        An archive has another hash than the pinned one.
    """
    folder.mkdir(parents=True, exist_ok=True)
    entries = {}
    for package in packages:
        files = dict(_files(package))
        for name, content in files.items():
            (folder / name).write_bytes(content)
        hashes = {name: digest(content) for name, content in files.items()}
        entries[package.name] = {"version": package.version, "integrity": package.integrity, "files": hashes}
    (folder / LOCK).write_text(json.dumps(entries, indent=2) + "\n", encoding="utf-8")


def _files(package: Package) -> Iterator[tuple[str, bytes]]:
    with tempfile.TemporaryDirectory() as folder:
        command = ["npm", "pack", "--silent", f"{package.name}@{package.version}"]
        subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)  # noqa: S603
        archive = next(Path(folder).glob("*.tgz"))
        if (found := digest(archive.read_bytes())) != package.integrity:
            raise TrainyardError(f"{package.name} {package.version} has the hash {found}", fix="review the package")
        with tarfile.open(archive) as opened:
            for name, member in package.files.items():
                stream = opened.extractfile(f"package/{member}")
                assert stream is not None  # noqa: S101
                yield name, stream.read()


if __name__ == "__main__":
    write(PACKAGES, ASSETS)
    write(CHECKERS, _TESTS)
    sys.exit(0)
