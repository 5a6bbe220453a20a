"""Read manifests from files, folders, globs and standard input."""

from __future__ import annotations

import glob
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

from trainyard.errors import TrainyardError
from trainyard.manifests.documents import Source

__all__ = ["STANDARD_INPUT", "read_sources", "read_text", "source_name"]

STANDARD_INPUT: Final = "standard input"
_SUFFIXES: Final = (".yaml", ".yml", ".json")
_MAX_BYTES: Final = 1024**3
_FIX: Final = "check that it is a YAML or JSON file"


def source_name(name: str) -> str:
    """Return the name of a file in messages; ``-`` is standard input."""
    return STANDARD_INPUT if name == "-" else name


def read_text(name: str | Path) -> str:
    """Return the text of a file without byte order mark; ``-`` reads standard input.

    Raises
    ------
    TrainyardError
        The file cannot be read, is larger than 1 GiB, or is not UTF-8.
    """
    shown = source_name(str(name))
    try:
        if str(name) == "-":
            return _standard_input()
        file = Path(name)
        if file.stat().st_size > _MAX_BYTES:
            raise TrainyardError(f"{shown} is larger than 1 GiB", fix=_FIX)
        return file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise TrainyardError(f"{shown} is not UTF-8 text", fix=_FIX) from error
    except OSError as error:
        raise TrainyardError(f"{shown} cannot be read: {error.strerror}", fix="check the path") from error


def read_sources(paths: Sequence[str], *, stdin: Callable[[], str] | None = None) -> Iterator[Source]:
    """Yield the manifests at the paths, each file once.

    Parameters
    ----------
    paths
        Files, folders, globs; ``-`` for standard input. Hidden folders and ``node_modules`` are not searched.
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
        files = list(_files(path))
        for file, explicit in files:
            real = os.path.realpath(file)
            if real not in seen:
                seen.add(real)
                yield Source(_shown(file), read_text(file), file, explicit)
        if not files:
            raise TrainyardError(
                f"{path} contains no {', '.join(_SUFFIXES)} file", fix="check the path; hidden folders are not searched"
            )


def _standard_input() -> str:
    return sys.stdin.buffer.read(_MAX_BYTES).decode("utf-8-sig")


def _files(path: str) -> Iterator[tuple[Path, bool]]:
    file = Path(path)
    if file.is_dir():
        yield from ((found, False) for found in _below(file))
    elif file.exists():
        yield file, True
    elif any(sign in path for sign in "*?["):
        for match in sorted(glob.glob(path, recursive=True)):  # noqa: PTH207 - the pattern may be absolute
            found = Path(match)
            yield from ((inner, False) for inner in (_below(found) if found.is_dir() else (found,)))
    else:
        raise TrainyardError(f"{path} does not exist", fix="check the path")


def _below(folder: Path) -> Iterator[Path]:
    for root, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name != "node_modules")
        yield from (Path(root, name) for name in sorted(files) if name.lower().endswith(_SUFFIXES))


def _shown(file: Path) -> str:
    """Return the name of a file in reports: relative to the working directory if it is below it."""
    absolute = Path(os.path.abspath(file))  # noqa: PTH100 - keeps symbolic links
    return (absolute.relative_to(Path.cwd()) if absolute.is_relative_to(Path.cwd()) else file).as_posix()
