"""Shared libraries of ELF files, and the check that an image has all that its programs need."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

from trainyard.local.images.file_tree import FileTree

_LOAD, _DYNAMIC, _INTERPRETER = 1, 2, 3
_NEEDED, _STRINGS, _RUN_PATHS = 1, 5, (15, 29)
_FOLDERS: Final = tuple(
    f"{folder}{triple}" for folder in ("lib", "usr/lib") for triple in ("", "/x86_64-linux-gnu", "/aarch64-linux-gnu")
)
"""Folders that Debian's loader searches; images have no ``ld.so.cache``, which would name others."""


@dataclass(frozen=True)
class ElfFile:
    """The dynamic part of an ELF file.

    Parameters
    ----------
    interpreter
        Path of the dynamic loader; None for libraries and static programs.
    needed
        Names of its shared libraries.
    run_paths
        Folders that it is searched in first; ``$ORIGIN`` is its own.
    """

    interpreter: str | None
    needed: tuple[str, ...]
    run_paths: tuple[str, ...]


def read_elf(content: bytes) -> ElfFile | None:
    """Return the dynamic part of a 64-bit little-endian ELF file; None for other files."""
    if content[:6] != b"\x7fELF\x02\x01":
        return None
    offset, size, count = (*struct.unpack_from("<Q", content, 32), *struct.unpack_from("<HH", content, 54))
    headers = [struct.unpack_from("<IIQQQQ", content, offset + index * size) for index in range(count)]
    interpreter = next(
        (
            content[at : at + length].rstrip(b"\0").decode()
            for kind, _, at, _, _, length in headers
            if kind == _INTERPRETER
        ),
        None,
    )
    dynamic = next(((at, length) for kind, _, at, _, _, length in headers if kind == _DYNAMIC), None)
    if dynamic is None:
        return ElfFile(interpreter, (), ())
    entries = [struct.unpack_from("<QQ", content, dynamic[0] + index) for index in range(0, dynamic[1] - 15, 16)]
    address = next(value for tag, value in entries if tag == _STRINGS)
    strings = next(
        at + address - base
        for kind, _, at, base, _, length in headers
        if kind == _LOAD and base <= address < base + length
    )

    def text(position: int) -> str:
        start = strings + position
        return content[start : content.index(b"\0", start)].decode()

    needed = tuple(text(value) for tag, value in entries if tag == _NEEDED)
    paths = [part for tag, value in entries if tag in _RUN_PATHS for part in text(value).split(":")]
    return ElfFile(interpreter, needed, tuple(paths))


def missing_libraries(tree: FileTree) -> dict[str, list[str]]:
    """Return the libraries and loaders that an image lacks, by the path of the file that needs them."""
    missing: dict[str, list[str]] = {}
    for path, entry in tree:
        elf = None if entry.content is None else read_elf(entry.read())
        if elf is None:
            continue
        folder = path.rpartition("/")[0]
        lacking = [name for name in elf.needed if not _found(tree, folder, name, elf)]
        if elf.interpreter is not None and tree.resolve(elf.interpreter.strip("/")) is None:
            lacking.append(elf.interpreter)
        if lacking:
            missing[path] = lacking
    return missing


def _found(tree: FileTree, folder: str, name: str, elf: ElfFile) -> bool:
    if any(tree.resolve(f"{shared}/{name}") is not None for shared in _FOLDERS):
        return True
    for run_path in elf.run_paths:
        parts: list[str] = []
        for part in run_path.replace("${ORIGIN}", "$ORIGIN").replace("$ORIGIN", folder).split("/"):
            parts = parts[:-1] if part == ".." else [*parts, part] if part not in ("", ".") else parts
        if tree.resolve("/".join([*parts, name])) is not None:
            return True
    return False
