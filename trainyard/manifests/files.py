"""Read manifests from files, folders, globs and standard input.

A pull request chooses what lies in a folder, so nothing in it is waited for, read without bound, or left out silently.
"""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from trainyard.errors import TrainyardError
from trainyard.manifests.documents import Source

STANDARD_INPUT: Final = "standard input"
_SUFFIXES: Final = (".yaml", ".yml", ".json")
_MAX_BYTES: Final = 1024**3
_MAX_YAML_BYTES: Final = 32 * 1024**2
_FIX: Final = "check that it is a YAML or JSON file"
_OPENED: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK
_OF_THE_SHELL: Final = re.compile(r"/dev/(?:stdin|fd/\d+)|/proc/(?:self|\d+)/fd/\d+")
"""Names of process substitution and of standard input, which are pipes."""


@dataclass(frozen=True)
class Unread:
    """File or folder that was found but not read.

    Parameters
    ----------
    name
        Name in reports.
    reason
        Why it was not read.
    fix
        What to do; empty: it is only skipped.
    """

    name: str
    reason: str
    fix: str = ""


def source_name(name: str) -> str:
    """Return the name of a file in messages; ``-`` is standard input."""
    return STANDARD_INPUT if name == "-" else name


def read_text(name: str | Path) -> str:
    """Return the text of a file without byte order mark; ``-`` reads standard input.

    Raises
    ------
    TrainyardError
        The file cannot be read, is a device or a FIFO, is larger than 1 GiB, or is not UTF-8.
    """
    shown = source_name(str(name))
    try:
        if str(name) == "-":
            return _decoded(sys.stdin.buffer.read(_MAX_BYTES + 1), shown)
        return _decoded(_content(str(name), shown), shown)
    except UnicodeDecodeError as error:
        raise TrainyardError(f"{shown} is not UTF-8 text", fix=_FIX) from error
    except OSError as error:
        raise TrainyardError(f"{shown} cannot be read: {error.strerror}", fix="check the path") from error


def read_sources(paths: Sequence[str], *, stdin: Callable[[], str] | None = None) -> Iterator[Source | Unread]:
    """Yield the manifests at the paths, each file once, and what was not read.

    Parameters
    ----------
    paths
        Files, folders, globs; ``-`` for standard input. Hidden folders, ``node_modules`` and links to folders are not
        searched. Links to files outside of the path and of the working directory are not read.
    stdin
        Returns the text of standard input.

    Raises
    ------
    TrainyardError
        A path matches no file, or a file cannot be read.
    """
    seen: set[str] = set()
    for path in paths:
        if path == "-":
            yield Source(STANDARD_INPUT, stdin() if stdin else read_text("-"))
            continue
        empty = True
        for found in _found(path):
            if isinstance(found, Unread):
                empty = empty and not found.fix
                yield found
                continue
            empty = False
            real = os.path.realpath(found.path)
            if real not in seen:
                seen.add(real)
                yield _read(found, Path(real))
        if empty:
            raise TrainyardError(
                f"{path} contains no {', '.join(_SUFFIXES)} file", fix="check the path; hidden folders are not searched"
            )


@dataclass(frozen=True)
class _File:
    """File to read; a link must stay below the root or the working directory."""

    path: Path
    root: Path
    explicit: bool = False


def _read(file: _File, real: Path) -> Source | Unread:
    """Read a file, which is at the path ``real`` without links."""
    name = _shown(file.path)
    if not _OF_THE_SHELL.fullmatch(str(file.path)):
        inside = any(real.is_relative_to(os.path.realpath(folder)) for folder in (file.root, Path.cwd()))
        if not inside:
            return Unread(name, f"is a link out of {_shown(file.root)}", "replace the link with a file, or remove it")
        if real.exists() and not real.is_file():
            return Unread(name, "is not a regular file", "remove it")
    text = read_text(file.path)
    if len(text) > _MAX_YAML_BYTES and not text.lstrip().startswith("{"):
        return Unread(name, f"is larger than {_MAX_YAML_BYTES // 1024**2} MiB", "split it, or write it as JSON")
    return Source(name, text, file.path, file.explicit)


def _content(name: str, shown: str) -> bytes:
    special = _OF_THE_SHELL.fullmatch(name) is not None
    # A FIFO would block the opening.
    descriptor = os.open(name, _OPENED & ~os.O_NONBLOCK if special else _OPENED)
    with os.fdopen(descriptor, "rb") as file:
        about = os.fstat(descriptor)
        if stat.S_ISDIR(about.st_mode):
            raise TrainyardError(f"{shown} is a folder", fix="name a file")
        if not special and not stat.S_ISREG(about.st_mode):
            raise TrainyardError(f"{shown} is not a regular file", fix="name a file, or - for standard input")
        _require_size(about.st_size, shown)
        return file.read(_MAX_BYTES + 1)


def _decoded(content: bytes, shown: str) -> str:
    _require_size(len(content), shown)
    return content.decode("utf-8-sig")


def _require_size(size: int, shown: str) -> None:
    if size > _MAX_BYTES:
        raise TrainyardError(f"{shown} is larger than 1 GiB", fix=_FIX)


def _found(path: str) -> Iterator[_File | Unread]:
    file = Path(path)
    if file.is_dir():
        real = Path(os.path.realpath(file))
        if file.is_symlink() and not any(real.is_relative_to(os.path.realpath(each)) for each in (file.parent, ".")):
            yield Unread(_shown(file), "is a link to another folder", "name the folder itself")
        else:
            yield from _below(file, file)
    elif file.exists() or file.is_symlink():
        yield _File(file, file.parent, explicit=True)
    elif any(sign in path for sign in "*?["):
        yield from _matching(path)
    else:
        raise TrainyardError(f"{path} does not exist", fix="check the path")


def _matching(pattern: str) -> Iterator[_File | Unread]:
    """Yield the files of a glob; links to folders are not followed, which may form loops."""
    parts = Path(pattern).parts
    first = next(number for number, part in enumerate(parts) if any(sign in part for sign in "*?["))
    root = Path(*parts[:first])
    inner = [part if part == "**" else part.replace("**", "*") for part in parts[first:]]
    for match in sorted(root.glob("/".join(inner))):
        if _is_hidden(match.relative_to(root).parts, inner):
            continue
        if match.is_dir():
            yield from _below(match, root)
        elif inner[-1] != "**" or match.suffix.lower() in _SUFFIXES:
            yield _File(match, root)


def _is_hidden(parts: Sequence[str], pattern: Sequence[str]) -> bool:
    return any(part.startswith(".") for part in parts) and not any(part.startswith(".") for part in pattern)


def _below(folder: Path, top: Path) -> Iterator[_File | Unread]:
    for root, folders, files in os.walk(folder, onerror=_unreadable):
        kept = []
        for name in sorted(folders):
            inner = Path(root, name)
            if inner.is_symlink():
                # A link into the searched folder shows what is read anyway.
                if not Path(os.path.realpath(inner)).is_relative_to(os.path.realpath(top)):
                    yield Unread(_shown(inner), "is a link to another folder")
            elif name.startswith(".") or name == "node_modules":
                # Folders of mounted ConfigMaps begin with two dots, and their files are linked beside them.
                if name != ".git" and not name.startswith("..") and _has_manifests(inner):
                    yield Unread(_shown(inner), "is a hidden folder" if name.startswith(".") else "contains packages")
            else:
                kept.append(name)
        folders[:] = kept
        yield from (_File(Path(root, name), top) for name in sorted(files) if name.lower().endswith(_SUFFIXES))


def _has_manifests(folder: Path) -> bool:
    return any(name.lower().endswith(_SUFFIXES) for _, _, names in os.walk(folder) for name in names)


def _unreadable(error: OSError) -> None:
    raise TrainyardError(f"{error.filename} cannot be read: {error.strerror}", fix="check its permissions") from error


def _shown(file: Path) -> str:
    """Return the name of a file in reports: relative to the working directory if it is below it."""
    absolute = Path(os.path.abspath(file))  # noqa: PTH100 - keeps symbolic links
    return (absolute.relative_to(Path.cwd()) if absolute.is_relative_to(Path.cwd()) else file).as_posix()
