"""Catalog folder in memory: read completely, changed as a value, and written atomically."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from trainyard.errors import TrainyardError

INDEX: Final = "index.yaml"
LOCK: Final = "images.lock"


def version_file(name: str, version: str) -> str:
    """Return the path of a version relative to its folder."""
    return f"{name}/{version}.yaml"


@dataclass(frozen=True)
class CatalogFolder:
    """Content of a catalog folder.

    Parameters
    ----------
    root
        The folder; part of the file names in findings.
    texts
        Text by path relative to the folder: the index, the lock of images, and the versions.
    unreadable
        Why a file cannot be read, by the same path.
    """

    root: Path
    texts: Mapping[str, str]
    unreadable: Mapping[str, str] = field(default_factory=dict)

    def path(self, file: str) -> Path:
        """Return the path of one of the files."""
        return self.root / file

    def with_texts(self, changes: Mapping[str, str | None]) -> CatalogFolder:
        """Return the folder with changed files; None deletes a file."""
        merged: dict[str, str | None] = {**self.texts, **changes}
        return replace(self, texts={file: text for file, text in merged.items() if text is not None})


def read_folder(root: Path) -> CatalogFolder:
    """Read a catalog folder.

    Raises
    ------
    TrainyardError
        The folder does not exist.
    """
    if not root.is_dir():
        raise TrainyardError(f"{root}: this folder does not exist", fix="name a folder with an index.yaml")
    texts: dict[str, str] = {}
    unreadable: dict[str, str] = {}
    for path in _files(root):
        file = path.relative_to(root).as_posix()
        try:
            texts[file] = path.read_text(encoding="utf-8")
        except OSError as error:
            unreadable[file] = f"cannot be read: {error.strerror}"
        except UnicodeDecodeError:
            unreadable[file] = "is not valid UTF-8"
    return CatalogFolder(root, texts, unreadable)


def _files(root: Path) -> Iterator[Path]:
    yield from (path for path in (root / INDEX, root / LOCK) if path.is_file())
    yield from sorted(path for path in root.glob("*/*.yaml") if path.is_file())


def write_folder(before: CatalogFolder, after: CatalogFolder) -> list[Path]:
    """Write the difference between two states of a folder.

    Every new text is on disk before the first file is replaced; if a replacement fails, the previous ones are rolled
    back, so that index and versions stay consistent.

    Parameters
    ----------
    before
        The current folder.
    after
        The desired folder.

    Returns
    -------
    list[Path]
        Written and removed files, sorted.

    Raises
    ------
    TrainyardError
        A file changed since it was read, or cannot be written; no file is changed then.
    """
    files = sorted(file for file in {*before.texts, *after.texts} if before.texts.get(file) != after.texts.get(file))
    for file in files:
        if _on_disk(before.path(file)) != before.texts.get(file):
            raise TrainyardError(f"{before.path(file)} was changed by another process", fix="run the command again")
    fresh: dict[str, Path] = {}
    done: list[str] = []
    try:
        for file in files:
            text = after.texts.get(file)
            if text is not None:
                fresh[file] = _write_temporary(before.path(file), text)
        for file in files:
            done.append(file)
            if file in fresh:
                fresh[file].replace(before.path(file))
            else:
                before.path(file).unlink()
    except BaseException as error:
        _roll_back(before, done, fresh.values())
        _drop_empty(before, [file for file in files if file not in before.texts])
        if isinstance(error, OSError):
            reason = f"{before.root} cannot be written: {error.strerror}: nothing was changed"
            raise TrainyardError(reason, fix="check the permissions") from error
        raise
    _drop_empty(before, [file for file in files if file not in after.texts])
    return [before.path(file) for file in files]


def _roll_back(before: CatalogFolder, replaced: Iterable[str], temporary: Iterable[Path]) -> None:
    for file in replaced:
        with contextlib.suppress(OSError):
            _restore(before.path(file), before.texts.get(file))
    for path in temporary:
        path.unlink(missing_ok=True)


def _on_disk(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise TrainyardError(f"{path} cannot be read: {error.strerror}", fix="check the permissions") from error
    except UnicodeDecodeError as error:
        raise TrainyardError(f"{path} is not valid UTF-8", fix="remove it, or rewrite it") from error


def _drop_empty(folder: CatalogFolder, files: Iterable[str]) -> None:
    """Remove empty folders of runtimes."""
    for file in files:
        if "/" in file:
            with contextlib.suppress(OSError):
                folder.path(file).parent.rmdir()


def _write_temporary(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", text=True)
    temporary = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(path.stat().st_mode & 0o777 if path.exists() else 0o644)
    except OSError:
        temporary.unlink()
        raise
    return temporary


def _restore(path: Path, text: str | None) -> None:
    if text is None:
        path.unlink(missing_ok=True)
    elif _on_disk(path) != text:
        _write_temporary(path, text).replace(path)
