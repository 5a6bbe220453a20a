"""Files of a layer in memory: contents, modes and links, without what differs between machines."""

from __future__ import annotations

import io
import stat
import tarfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import IO

_EXECUTABLE = 0o755
_PLAIN = 0o644


@dataclass(frozen=True)
class FileEntry:
    """A file, a link or a folder.

    Parameters
    ----------
    content
        Content, or the file that has it; None for links and folders.
    link
        Target of a symbolic link.
    mode
        Permissions.
    """

    content: bytes | Path | None = None
    link: str | None = None
    mode: int = _PLAIN

    def read(self) -> bytes:
        """Return the content of a file."""
        return self.content.read_bytes() if isinstance(self.content, Path) else self.content or b""


class FileTree:
    """Entries by path, without a leading slash.

    Owners, times, extended attributes and the umask of the machine are not recorded, so equal contents make equal
    layers.
    """

    def __init__(self) -> None:
        self._entries: dict[str, FileEntry] = {}

    def __iter__(self) -> Iterator[tuple[str, FileEntry]]:
        return iter(sorted(self._entries.items()))

    def __contains__(self, path: str) -> bool:
        return path in self._entries

    def __getitem__(self, path: str) -> FileEntry:
        return self._entries[path]

    @property
    def size(self) -> int:
        """Bytes of all files."""
        contents = (entry.content for entry in self._entries.values() if entry.content is not None)
        return sum(each.stat().st_size if isinstance(each, Path) else len(each) for each in contents)

    def add(self, path: str, content: bytes | Path, *, executable: bool = False) -> None:
        """Add a file."""
        self._put(path, FileEntry(content, mode=_EXECUTABLE if executable else _PLAIN))

    def add_link(self, path: str, target: str) -> None:
        """Add a symbolic link."""
        self._put(path, FileEntry(link=target, mode=0o777))

    def add_folder(self, path: str, mode: int = _EXECUTABLE) -> None:
        """Add a folder; folders of files need not be added."""
        self._put(path, FileEntry(mode=mode))

    def _put(self, path: str, entry: FileEntry) -> None:
        parts = path.strip("/").split("/")
        if any(part in ("", ".", "..") for part in parts):
            raise ValueError(f"{path!r} is not a path in an image")
        self._entries["/".join(parts)] = entry

    def update(self, other: FileTree) -> None:
        """Add the entries of another tree; they replace equal paths."""
        self._entries.update(other._entries)

    def without(self, patterns: Iterable[str]) -> FileTree:
        """Return the tree without the paths that match a pattern."""
        kept, wanted = FileTree(), tuple(patterns)
        kept._entries = {path: entry for path, entry in self._entries.items() if not matches(path, wanted)}
        return kept

    def resolve(self, path: str) -> str | None:
        """Return the path of the file that a path denotes after following links; None if it does not exist."""
        for _ in range(10):
            path = self._through_folders(path)
            entry = self._entries.get(path)
            if entry is None or entry.link is None:
                return path if entry is not None and entry.content is not None else None
            path = _joined(path, entry.link)
        return None

    def _through_folders(self, path: str) -> str:
        parts = path.split("/")
        for index in range(1, len(parts)):
            head = self._entries.get("/".join(parts[:index]))
            if head is not None and head.link is not None:
                return self._through_folders("/".join([_joined("/".join(parts[:index]), head.link), *parts[index:]]))
        return path

    def unpack(self, folder: Path) -> None:
        """Write the tree to a folder; absolute links become relative to it."""
        for path, entry in self:
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            if entry.link is not None:
                link = entry.link
                target.symlink_to("../" * path.count("/") + link.lstrip("/") if link.startswith("/") else link)
            elif entry.content is None:
                target.mkdir(exist_ok=True)
            else:
                target.write_bytes(entry.read())
                target.chmod(entry.mode)

    def write_tar(self, output: IO[bytes]) -> None:
        """Write the tree as a tar archive: sorted, with numeric owners 0 and time 0."""
        folders = {
            "/".join(path.split("/")[:depth]) for path in self._entries for depth in range(1, path.count("/") + 1)
        }
        everything = {**{path: FileEntry(mode=_EXECUTABLE) for path in folders}, **self._entries}
        with tarfile.open(fileobj=output, mode="w", format=tarfile.PAX_FORMAT) as archive:
            for path, entry in sorted(everything.items()):
                member = tarfile.TarInfo(path)
                member.mode = entry.mode
                if entry.link is not None:
                    member.type, member.linkname = tarfile.SYMTYPE, entry.link
                    archive.addfile(member)
                elif isinstance(entry.content, Path):
                    with entry.content.open("rb") as file:
                        member.size = entry.content.stat().st_size
                        archive.addfile(member, file)
                elif entry.content is None:
                    member.type = tarfile.DIRTYPE
                    archive.addfile(member)
                else:
                    member.size = len(entry.content)
                    archive.addfile(member, io.BytesIO(entry.content))

    @classmethod
    def from_tar(cls, source: IO[bytes]) -> FileTree:
        """Read a tar archive, also of a Debian package; hard links become files, devices are not supported."""
        tree = cls()
        with tarfile.open(fileobj=source, mode="r:*") as archive:
            for member in archive:
                path = member.name.removeprefix("./").strip("/")
                if path in ("", "."):
                    continue
                if member.issym():
                    tree.add_link(path, member.linkname)
                elif member.isdir():
                    tree.add_folder(path, stat.S_IMODE(member.mode))
                elif member.isfile() or member.islnk():
                    file = archive.extractfile(member)
                    assert file is not None  # noqa: S101
                    tree._put(path, FileEntry(file.read(), mode=stat.S_IMODE(member.mode)))
                else:
                    raise ValueError(f"{member.name} is not a file, a link or a folder")
        return tree


def matches(path: str, patterns: Iterable[str]) -> bool:
    """Return whether a path, or a folder above it, matches a shell pattern."""
    parts = path.split("/")
    heads = ["/".join(parts[:depth]) for depth in range(1, len(parts) + 1)]
    return any(fnmatchcase(head, pattern) for pattern in patterns for head in heads)


def _joined(path: str, link: str) -> str:
    parts = [] if link.startswith("/") else path.split("/")[:-1]
    for part in link.split("/"):
        if part == "..":
            parts = parts[:-1]
        elif part not in ("", "."):
            parts.append(part)
    return "/".join(parts)
