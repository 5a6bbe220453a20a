"""Upstream manifests, read from pinned modules and never copied into this repository.

A file is read from the first available source: the folder or URL in ``TRAINYARD_UPSTREAM``, the Go module cache, or the
module that ``go mod download`` fetches. From any source, its SHA-256 must match the lock file. Parsed objects are
cached, because parsing a megabyte of YAML dominates the run time. The lock file has their SHA-256 too, so that a cached
copy that anything has changed is parsed again instead of installed.
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
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from trainyard.atomic_write import atomic_write
from trainyard.data import components_folder, project_root
from trainyard.errors import TrainyardError
from trainyard.manifests.documents import objects
from trainyard.settings.versions import PROGRAMS, ComponentRelease, component_release, supported_versions

SOURCE_VARIABLE = "TRAINYARD_UPSTREAM"
"""Variable with a folder, or an https URL with {module}, {version} and {path}, to read upstream files from."""

_KIND = re.compile(r"^kind:\s*([A-Za-z]+)", re.MULTILINE)
_SEPARATOR = re.compile(r"^---\s*$", re.MULTILINE)


@dataclass(frozen=True)
class _Lock:
    """SHA-256 of an upstream file, and of the objects that are parsed from it."""

    sha256: str
    objects: str


def lock_file() -> Path:
    """Return the lock file with the SHA-256 of every upstream file."""
    return components_folder() / "upstream.lock"


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
    return _verified(component, version, path, lock or lock_file())[0]


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
        Kinds to return. None: all kinds.
    """
    return [json.loads(text) for kind, text in _documents(component, version, path) if kinds is None or kind in kinds]


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
        table[_key(release)] = {name: asdict(_lock_of(_fetch(release, name, None))) for name in sorted(names)}
    target = lock or lock_file()
    target.write_text(json.dumps(dict(sorted(table.items())), indent=2) + "\n")
    return target


@lru_cache(maxsize=128)
def _documents(component: str, version: str, path: str) -> tuple[tuple[str, str], ...]:
    """Return kind and JSON of each object, from the cache if it is what the lock file says."""
    text, expected = _verified(component, version, path, lock_file())
    cache = _cache_folder() / f"{expected}.objects.json"
    with contextlib.suppress(OSError):
        content = cache.read_bytes()
        if _sha256(content) == expected:
            return _loaded(content)
    content = _parse(text)
    if _sha256(content) == expected:
        with contextlib.suppress(OSError):
            _keep(cache, content)
    return _loaded(content)


def _verified(component: str, version: str, path: str, lock: Path) -> tuple[str, str]:
    """Return an upstream file, and the SHA-256 of the objects in it."""
    release = component_release(component, version)
    entry = _locked(lock).get(_key(release), {}).get(path)
    if entry is None:
        raise TrainyardError(
            f"{path} of {component} {version} has no SHA-256 in {lock}",
            fix="run `make upstream-lock` and review the diff",
        )
    content = _fetch(release, path, entry.sha256)
    if (found := _sha256(content)) != entry.sha256:
        raise TrainyardError(
            f"{path} of {component} {version} does not match the lock file: SHA-256 {found}, expected {entry.sha256}",
            fix=f"do not install it; find out why it changed (read from {_origin(release, path)})",
        )
    return content.decode(), entry.objects


def _lock_of(content: bytes) -> _Lock:
    return _Lock(_sha256(content), _sha256(_parse(content.decode())))


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _parse(text: str) -> bytes:
    """Return the objects of a file as JSON: a list of kind and text of each."""
    parts = ((_KIND.search(part), part) for part in _SEPARATOR.split(text))
    return json.dumps([(kind[1], json.dumps(body)) for kind, part in parts if kind for body in objects(part)]).encode()


def _loaded(content: bytes) -> tuple[tuple[str, str], ...]:
    return tuple((kind, text) for kind, text in json.loads(content))


def _keep(file: Path, content: bytes) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(file) as output:
        output.write(content)


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


def _locked(lock: Path) -> dict[str, dict[str, _Lock]]:
    try:
        table = json.loads(lock.read_text())
        return {
            release: {path: _Lock(entry["sha256"], entry["objects"]) for path, entry in files.items()}
            for release, files in table.items()
        }
    except OSError as error:
        raise TrainyardError(
            f"{lock} cannot be read: {error.strerror}", fix="restore it from the repository"
        ) from error
    except ValueError as error:
        raise TrainyardError(f"{lock} is not valid JSON: {error}", fix="restore it from the repository") from error
    except (AttributeError, KeyError, TypeError) as error:
        raise TrainyardError(f"{lock} is not a lock file", fix="restore it from the repository") from error


def _key(release: ComponentRelease) -> str:
    return f"{release.module}@v{release.version}"


def _escaped(module: str) -> str:
    return re.sub(r"[A-Z]", lambda match: f"!{match.group().lower()}", module)


def _origin(release: ComponentRelease, path: str) -> str:
    override = os.environ.get(SOURCE_VARIABLE)
    return override or str(_module_folder(release) / path)


def _fetch(release: ComponentRelease, path: str, expected: str | None) -> bytes:
    override = os.environ.get(SOURCE_VARIABLE)
    if override and override.startswith("https://"):
        return _download(override.format(module=release.module, version=release.version, path=path), expected)
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
    if not _downloading:
        raise TrainyardError(
            f"The manifests of {_key(release)} are not in the module cache ({_module_folder(release)}), and a preview "
            "downloads nothing",
            fix="run `trainyard cluster toolchain --manifests`, which downloads them (`--older` for earlier versions), "
            f"or set {SOURCE_VARIABLE} to a folder or URL with them",
        )
    if go is None:
        raise TrainyardError(
            f"The manifests of {_key(release)} are not in the module cache, and Go is not installed to download them",
            fix=f"install Go (in a checkout: `make up`), or set {SOURCE_VARIABLE} to a folder or URL with them",
        )
    folder = project_root() / "toolchain" / (group or "")
    listed = group is not None and folder.is_dir()
    result = subprocess.run(  # noqa: S603
        [go, "mod", "download", release.module if listed else f"{release.module}@v{release.version}"],
        cwd=folder if listed else tempfile.gettempdir(),  # a wheel lacks the go.mod files; the lock file verifies
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


_downloading = True


@contextlib.contextmanager
def without_downloads() -> Iterator[None]:
    """Fail instead of downloading modules, in every thread: a preview only reads.

    Files of ``TRAINYARD_UPSTREAM`` are read, because that variable names where they come from.
    """
    global _downloading
    before, _downloading = _downloading, False
    try:
        yield
    finally:
        _downloading = before


def require_modules(components: Iterable[str], *, older: bool = False) -> None:
    """Download the modules of components whose manifests are not available.

    Parameters
    ----------
    older
        Also those of earlier tested versions.

    Raises
    ------
    TrainyardError
        A module cannot be downloaded.
    """
    if os.environ.get(SOURCE_VARIABLE) or not lock_file().is_file():
        return
    for component in components:
        for version in supported_versions(component)[: None if older else 1]:
            release = component_release(component, version)
            if locked_files(component, version) and not _module_folder(release).is_dir():
                _go_mod_download(release)


_Opener = Callable[[str], bytes]


def _get(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=60) as response:  # noqa: S310
        content: bytes = response.read()
    return content


def _download(url: str, expected: str | None, opener: _Opener = _get) -> bytes:
    """Return what a URL has; the cached copy only if it has the expected SHA-256."""
    cache = _cache_folder() / _sha256(url.encode())
    with contextlib.suppress(OSError):
        if _sha256(content := cache.read_bytes()) == expected:
            return content
    try:
        content = opener(url)
    except (urllib.error.URLError, OSError) as error:
        raise TrainyardError(
            f"{url} cannot be read: {error}", fix=f"check {SOURCE_VARIABLE} and the network"
        ) from error
    if _sha256(content) == expected:
        with contextlib.suppress(OSError):
            _keep(cache, content)
    return content


def _cache_folder() -> Path:
    if home := os.environ.get("TRAINYARD_CACHE_HOME"):
        return Path(home) / "upstream"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "trainyard" / "upstream"
