"""Python packages of images: locked wheels, unpacked without pip's own files, and byte code of the image's interpreter.

Byte code is compiled when the image is built: its root file system is read-only, so every start would compile again.
The interpreter of the image compiles it, because byte code of another release is ignored.
"""

from __future__ import annotations

import configparser
import hashlib
import platform
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from trainyard.errors import TrainyardError
from trainyard.local.images.bill_of_materials import ImageComponent, python_component
from trainyard.local.images.file_tree import FileTree, matches

_VERSION: Final = "3.11"
"""Python of Debian 12."""
_GLIBC: Final = 36
SITE: Final = f"usr/local/lib/python{_VERSION}/dist-packages"
_HASH: Final = re.compile(r"--hash=sha256:([0-9a-f]{64})")
_LAUNCHER: Final = """\
#!/usr/bin/python{version}
import sys

from {module} import {function}

sys.exit({function}())
"""
_SOURCES: Final = ("pyproject.toml", "README.md", "LICENSE", "trainyard", "components", "policies", "runtimes")
"""What the wheel of this project is made from, with ``toolchain/opa``."""


def locked_wheels(requirements: Path, cache: Path) -> list[Path]:
    """Return the wheels of a hash-locked requirements file, downloading them once.

    Raises
    ------
    TrainyardError
        pip cannot download one for the Python of the image.
    """
    text = requirements.read_text()
    known = set(_HASH.findall(text))
    machine = platform.machine()
    folder = cache / hashlib.sha256(f"{_VERSION} {machine}\n{text}".encode()).hexdigest()[:16]
    done = folder / "complete"
    if done.is_file():
        found = sorted(folder.glob("*.whl"))
        if done.read_text().split() == [file.name for file in found] and all(_sha256(file) in known for file in found):
            return found
    folder.mkdir(parents=True, exist_ok=True)
    platforms = [f"manylinux_2_{minor}_{machine}" for minor in range(_GLIBC, 4, -1)] + [f"manylinux2014_{machine}"]
    command = [
        *(sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"),
        *("--require-hashes", "--only-binary", ":all:", "--implementation", "cp", "--python-version", _VERSION),
        *(part for each in platforms for part in ("--platform", each)),
        *("--dest", str(folder), "-r", str(requirements)),
    ]
    result = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    if result.returncode:
        raise TrainyardError(
            f"The wheels of {requirements.name} cannot be downloaded: {' '.join(result.stderr.split())[-300:]}",
            fix="check the network and pip's configuration, then run the command again (finished wheels are kept)",
        )
    found = sorted(folder.glob("*.whl"))
    if changed := [file.name for file in found if _sha256(file) not in known]:
        raise TrainyardError(f"{changed[0]} does not have a hash of {requirements.name}", fix=f"remove {folder}")
    done.write_text("\n".join(file.name for file in found))
    return found


def own_wheel(project: Path, folder: Path) -> Path:
    """Build the wheel of this checkout into a folder.

    Raises
    ------
    TrainyardError
        It cannot be built.
    """
    command = [
        *(sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps"),
        *("--no-build-isolation", "--no-index", "--wheel-dir", str(folder), str(project)),
    ]
    result = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    found = sorted(folder.glob("*.whl"))
    if result.returncode or not found:
        raise TrainyardError(
            f"The wheel of {project} cannot be built: {' '.join(result.stderr.split())[-300:]}",
            fix="run the command in the environment of `make .venv/.ready`",
        )
    return found[0]


def sources_digest(project: Path) -> str:
    """Return the digest of everything the wheel of this checkout is made from."""
    digest = hashlib.sha256()
    for part in (*_SOURCES, "toolchain/opa"):
        place = project / part
        files = [place] if place.is_file() else sorted(path for path in place.rglob("*") if path.is_file())
        for file in files:
            if "__pycache__" not in file.parts:
                digest.update(f"{file.relative_to(project).as_posix()}\0".encode() + file.read_bytes() + b"\0")
    return digest.hexdigest()


def unpacked(wheels: Iterable[Path], scripts: Iterable[str]) -> tuple[FileTree, list[ImageComponent]]:
    """Return the files of wheels in the image's site folder, launchers of console scripts, and the components.

    Raises
    ------
    TrainyardError
        No package has one of the scripts.
    """
    tree, components = FileTree(), list[ImageComponent]()
    launchers: dict[str, str] = {}
    for file in wheels:
        name, version, *_ = file.name.split("-")
        components.append(python_component(name, version, _sha256(file)))
        with zipfile.ZipFile(file) as archive:
            for member in archive.infolist():
                path = _installed(member.filename)
                if path is None or member.is_dir():
                    continue
                content = archive.read(member)
                tree.add(f"{SITE}/{path}", content)
                if path.endswith(".dist-info/entry_points.txt"):
                    launchers.update(_console_scripts(content.decode()))
    for script in scripts:
        if script not in launchers:
            raise TrainyardError(f"No wheel has the console script {script}", fix="correct scripts in the recipe")
        module, _, function = launchers[script].partition(":")
        text = _LAUNCHER.format(version=_VERSION, module=module, function=function)
        tree.add(f"usr/local/bin/{script}", text.encode(), executable=True)
    return tree, components


def _installed(path: str) -> str | None:
    """Return the path of a wheel's member in the site folder, or None if it is not installed (scripts, headers)."""
    head, _, rest = path.partition("/")
    if not head.endswith(".data"):
        return path
    kind, _, inner = rest.partition("/")
    return inner if kind in ("purelib", "platlib") else None


def _console_scripts(text: str) -> Mapping[str, str]:
    parser = configparser.ConfigParser(delimiters=("=",))
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string(text)
    return dict(parser["console_scripts"]) if parser.has_section("console_scripts") else {}


def byte_compiled(tree: FileTree, below: FileTree) -> FileTree:
    """Return the byte code of the modules of a tree, compiled by the interpreter in it or in the layers below.

    Raises
    ------
    TrainyardError
        The image has no interpreter, or it does not run on this machine.
    """
    everything = FileTree()
    everything.update(below)
    everything.update(tree)
    with tempfile.TemporaryDirectory() as temporary:
        root = Path(temporary)
        everything.without(["usr/share", "etc"]).unpack(root)
        loader = next((path for pattern in ("lib64/ld-linux-*", "lib/ld-linux-*") for path in root.glob(pattern)), None)
        interpreter = root / "usr" / "bin" / f"python{_VERSION}"
        if loader is None or not interpreter.is_file():
            raise TrainyardError("byteCompile requires a layer with Python", fix="add the packages to a layer below")
        libraries = ":".join(str(path) for path in (*root.glob("lib/*-linux-gnu"), *root.glob("usr/lib/*-linux-gnu")))
        names = [
            path for path, _ in tree if path.endswith(".py") and not matches(path, ["*/test/*", "*lib2to3/tests*"])
        ]
        listing = root / "modules"
        listing.write_text("\n".join(str(root / name) for name in names))
        command = [
            *(str(loader), "--library-path", libraries, str(interpreter), "-s", "-S", "-m", "compileall", "-q", "-f"),
            *("--invalidation-mode", "unchecked-hash", "-s", str(root), "-p", "/", "-i", str(listing)),
        ]
        # Sources of another Python, as in test data, do not compile; they are installed without byte code.
        done = subprocess.run(  # noqa: S603
            command, capture_output=True, text=True, check=False, env={"PYTHONHASHSEED": "0", "LC_ALL": "C.UTF-8"}
        )
        compiled = FileTree()
        for name in names:
            folder, _, base = name.rpartition("/")
            path = f"{folder}/__pycache__/{base[:-3]}.cpython-{_VERSION.replace('.', '')}.pyc"
            if (root / path).is_file():
                compiled.add(path, (root / path).read_bytes())
    if names and not any(True for _ in compiled):
        raise TrainyardError(
            f"The image's Python does not run here: {' '.join((done.stderr or done.stdout).split())[-300:]}",
            fix="build the image on a machine of its architecture",
        )
    return compiled


def _sha256(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()
