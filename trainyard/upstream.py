"""Upstream manifests, read from pinned modules and never copied into this repository.

A file is read from the first available source: the folder or URL in ``TRAINYARD_UPSTREAM``, the Go module cache, or the
module that ``go mod download`` fetches. From any source, its SHA-256 must match the lock file. Parsed objects are
cached by the hash of the text, because parsing a megabyte of YAML dominates the run time.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from trainyard.data import project_root
from trainyard.errors import TrainyardError
from trainyard.manifests.documents import objects
from trainyard.settings.versions import PROGRAMS, ComponentRelease, component_release

__all__ = [
    "SOURCE_VARIABLE",
    "documents",
    "lock_file",
    "locked_files",
    "module_cache",
    "read",
    "record",
    "without_descriptions",
]

SOURCE_VARIABLE = "TRAINYARD_UPSTREAM"
"""Variable with a folder, or an https URL with {module}, {version} and {path}, to read upstream files from."""

_KIND = re.compile(r"^kind:\s*([A-Za-z]+)", re.MULTILINE)
_SEPARATOR = re.compile(r"^---\s*$", re.MULTILINE)


def lock_file() -> Path:
    """Return the lock file with the SHA-256 of every upstream file."""
    return project_root() / "components" / "upstream.lock"


def read(component: str, version: str, path: str, *, lock: Path | None = None) -> str:
    """Return an upstream file after verifying its SHA-256.

    Parameters
    ----------
    component, version
        An entry of the version table (``volcano``, ``1.14.1``).
    path
        Path of the file in the component's source tree.
    lock
        The lock file; None: the project's.

    Raises
    ------
    TrainyardError
        The file is not available, not locked, or does not match the lock.
    """
    release = component_release(component, version)
    expected = _locked(lock or lock_file()).get(_key(release), {}).get(path)
    if expected is None:
        raise TrainyardError(
            f"{path} of {component} {version} has no SHA-256 in {lock or lock_file()}",
            fix="run `make upstream-lock` and review the diff",
        )
    content = _fetch(release, path)
    found = hashlib.sha256(content).hexdigest()
    if found != expected:
        raise TrainyardError(
            f"{path} of {component} {version} does not match the lock file: SHA-256 {found}, expected {expected}",
            fix=f"do not install it; find out why it changed (read from {_origin(release, path)})",
        )
    return content.decode()


def locked_files(component: str, version: str) -> list[str]:
    """Return the paths of the upstream files of a component, sorted."""
    return sorted(_locked(lock_file()).get(_key(component_release(component, version)), {}))


def documents(component: str, version: str, path: str, *, kinds: Sequence[str] | None = None) -> list[dict[str, Any]]:
    """Return the objects in an upstream file.

    Parameters
    ----------
    component, version, path
        As for `read`.
    kinds
        Kinds to return; others are not parsed. None: all kinds.
    """
    return [json.loads(text) for text in _documents(component, version, path, tuple(kinds) if kinds else None)]


def without_descriptions(definition: Mapping[str, Any]) -> dict[str, Any]:
    """Return a CustomResourceDefinition without schema descriptions, which are most of its size."""
    stripped: dict[str, Any] = json.loads(json.dumps(definition))
    for version in stripped["spec"]["versions"]:
        schema = version.get("schema", {}).get("openAPIV3Schema")
        if schema:
            _strip(schema)
    return stripped


def record(paths: Mapping[tuple[str, str], Iterable[str]], *, lock: Path | None = None) -> Path:
    """Write the lock file from the current files; review the diff like code.

    Parameters
    ----------
    paths
        Files by component and version.
    lock
        The file to write; None: the project's.
    """
    table = {}
    for (component, version), names in paths.items():
        release = component_release(component, version)
        table[_key(release)] = {name: hashlib.sha256(_fetch(release, name)).hexdigest() for name in sorted(names)}
    target = lock or lock_file()
    target.write_text(json.dumps(dict(sorted(table.items())), indent=2) + "\n")
    return target


@lru_cache(maxsize=128)
def _documents(component: str, version: str, path: str, kinds: tuple[str, ...] | None) -> tuple[str, ...]:
    text = read(component, version, path)
    key = hashlib.sha256(f"{kinds}\0{text}".encode()).hexdigest()
    parsed = _cache_folder() / f"{key}.parsed.json"
    with contextlib.suppress(OSError, ValueError):
        return tuple(json.loads(parsed.read_bytes()))
    found = _parse(text, kinds)
    with contextlib.suppress(OSError):
        _keep(parsed, json.dumps(found).encode())
    return found


def _parse(text: str, kinds: tuple[str, ...] | None) -> tuple[str, ...]:
    found = []
    for part in _SEPARATOR.split(text):
        kind = _KIND.search(part)
        if kind and (kinds is None or kind.group(1) in kinds):
            found += [json.dumps(body) for body in objects(part)]
    return tuple(found)


def _keep(file: Path, content: bytes) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    partial = file.with_suffix(f".{os.getpid()}")
    partial.write_bytes(content)
    partial.replace(file)


def _strip(schema: dict[str, Any]) -> None:
    schema.pop("description", None)
    for group in ("properties", "patternProperties", "definitions"):
        for child in schema.get(group, {}).values():
            _strip(child)
    for key in ("items", "additionalProperties", "not"):
        if isinstance(schema.get(key), dict):
            _strip(schema[key])
    for key in ("allOf", "anyOf", "oneOf"):
        for child in schema.get(key, []):
            _strip(child)


def _locked(lock: Path) -> dict[str, dict[str, str]]:
    try:
        table: dict[str, dict[str, str]] = json.loads(lock.read_text())
    except OSError as error:
        raise TrainyardError(
            f"{lock} cannot be read: {error.strerror}", fix="restore it from the repository"
        ) from error
    except ValueError as error:
        raise TrainyardError(f"{lock} is not valid JSON: {error}", fix="restore it from the repository") from error
    return table


def _key(release: ComponentRelease) -> str:
    return f"{release.module}@v{release.version}"


def _escaped(module: str) -> str:
    return re.sub(r"[A-Z]", lambda match: f"!{match.group().lower()}", module)


def _origin(release: ComponentRelease, path: str) -> str:
    override = os.environ.get(SOURCE_VARIABLE)
    return override or str(_module_folder(release) / path)


def _fetch(release: ComponentRelease, path: str) -> bytes:
    override = os.environ.get(SOURCE_VARIABLE)
    if override and override.startswith("https://"):
        return _download(override.format(module=release.module, version=release.version, path=path))
    folder = Path(override) / _key(release) if override else _module_folder(release)
    if not override and not folder.is_dir():
        _go_mod_download(release)
    try:
        return (folder / path).read_bytes()
    except OSError as error:
        raise TrainyardError(
            f"{folder / path} cannot be read: {error.strerror}",
            fix=f"{SOURCE_VARIABLE} must name a folder with {_key(release)}/{path}"
            if override
            else f"delete {folder} and run the command again to download it",
        ) from error


def _module_folder(release: ComponentRelease) -> Path:
    return module_cache() / f"{_escaped(release.module)}@v{release.version}"


def module_cache() -> Path:
    """Return Go's module cache without running Go."""
    if configured := os.environ.get("GOMODCACHE"):
        return Path(configured)
    if path := os.environ.get("GOPATH"):
        return Path(path.split(os.pathsep)[0]) / "pkg" / "mod"
    return Path.home() / "go" / "pkg" / "mod"


def _go_mod_download(release: ComponentRelease) -> None:
    programs = (each for each in PROGRAMS if f"{each.package}/".startswith(f"{release.module}/"))
    group = next((each.group for each in programs if each.version == release.version), None)
    go = shutil.which("go") or shutil.which("go", path=str(Path(sys.executable).parent))
    if go is None:
        raise TrainyardError(
            f"The manifests of {_key(release)} are not in the module cache, and Go is not installed to download them",
            fix=f"run `make up`, install Go, or set {SOURCE_VARIABLE} to a folder or URL with them",
        )
    result = subprocess.run(  # noqa: S603
        [go, "mod", "download", release.module if group else f"{release.module}@v{release.version}"],
        cwd=project_root() / "toolchain" / (group or ""),
        env={**os.environ, "GOMODCACHE": str(module_cache())},
        capture_output=True,
        text=True,
        check=False,
    )
    if result.returncode != 0:
        raise TrainyardError(
            f"go mod download {release.module} failed: {result.stderr.strip().rpartition(chr(10))[2]}",
            fix="check access to the Go module proxy (GOPROXY)",
        )


_Opener = Callable[[str], bytes]


def _get(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=60) as response:  # noqa: S310
        content: bytes = response.read()
    return content


def _download(url: str, opener: _Opener = _get) -> bytes:
    cache = _cache_folder() / hashlib.sha256(url.encode()).hexdigest()
    if cache.is_file():
        return cache.read_bytes()
    try:
        content = opener(url)
    except (urllib.error.URLError, OSError) as error:
        raise TrainyardError(
            f"{url} cannot be read: {error}", fix=f"check {SOURCE_VARIABLE} and the network"
        ) from error
    _keep(cache, content)
    return content


def _cache_folder() -> Path:
    if home := os.environ.get("TRAINYARD_CACHE_HOME"):
        return Path(home) / "upstream"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "trainyard" / "upstream"
