"""The machine's C compiler: static programs, and the packages whose code it links into them."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Final

from trainyard.errors import TrainyardError
from trainyard.local.images.bill_of_materials import ImageComponent, debian_component

_FLAGS: Final = ("-static", "-Os", "-s", "-Wall", "-Werror", "-Wl,--build-id=none")
_LIBRARIES: Final = ("libc.a", "libgcc.a")
"""What a static program of C contains beside its own code."""

Run = Callable[[list[str], Path], str]


def _run(command: list[str], folder: Path) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        raise TrainyardError(
            f"{Path(command[0]).name} failed: {' '.join(done.stderr.split())[-300:]}", fix="install gcc and libc6-dev"
        )
    return done.stdout


def _compiler() -> str:
    found = shutil.which("cc") or shutil.which("gcc")
    if found is None:
        raise TrainyardError(
            "The image pause requires a C compiler, and neither cc nor gcc is on PATH",
            fix="install gcc and libc6-dev (Debian), or name the other images",
        )
    return found


def compile_static(source: Path, folder: Path) -> bytes:
    """Return the static program of a C file, compiled in an empty folder."""
    shutil.copyfile(source, folder / source.name)
    _run([_compiler(), *_FLAGS, "-o", "program", source.name], folder)
    return (folder / "program").read_bytes()


def compiler_version() -> str:
    """Return what the compiler says of its version."""
    return _run([_compiler(), "--version"], Path("/"))


def linked_components(architecture: str, run: Run = _run) -> list[ImageComponent]:
    """Return the libraries that the compiler links: their Debian packages, else each file by its hash."""
    found: dict[str, ImageComponent] = {}
    for library in _LIBRARIES:
        file = Path(run([_compiler(), f"-print-file-name={library}"], Path("/")).strip())
        if not file.is_absolute():
            raise TrainyardError(f"The C compiler has no {library}", fix="install gcc and libc6-dev (Debian)")
        component = _package(file.resolve(), architecture, run) or _file(file.resolve())
        found[component.purl] = component
    return sorted(found.values())


def _package(file: Path, architecture: str, run: Run) -> ImageComponent | None:
    if shutil.which("dpkg-query") is None:
        return None
    try:
        owner = run(["dpkg-query", "--search", str(file)], Path("/")).partition(": ")[0]
        version = run(["dpkg-query", "--show", "--showformat=${Version}", owner], Path("/"))
    except TrainyardError:
        return None
    return debian_component(owner.partition(":")[0], version, architecture, "")


def _file(file: Path) -> ImageComponent:
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    return ImageComponent(f"pkg:generic/{file.name}?checksum=sha256:{digest}", file.name, digest[:12], digest)
