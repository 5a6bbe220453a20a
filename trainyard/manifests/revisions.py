"""Files at a git revision, and files changed since one; the one place that runs git."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from trainyard.errors import TrainyardError

__all__ = ["changed_files", "texts_at"]


def changed_files(revision: str, folder: Path, *, option: str = "--changed-since") -> frozenset[Path]:
    """Return the files that differ from where the current branch left a revision.

    Parameters
    ----------
    revision
        Branch, tag or commit, such as ``origin/main``.
    folder
        A folder of the repository.
    option
        Option of the command line that asks for it, named in errors.

    Returns
    -------
    frozenset[Path]
        Resolved paths; renamed files under their new name, untracked ones included, removed ones not.

    Raises
    ------
    TrainyardError
        The folder is in no repository, or the revision is unknown.
    """
    git = _Git(option)
    root, base = git.branch_point(revision, folder)
    names = [
        *git.run(root, "diff", "--name-only", "-z", "--diff-filter=d", base, "--").split(b"\0"),
        *git.run(root, "ls-files", "--others", "--exclude-standard", "-z").split(b"\0"),
    ]
    return frozenset((root / os.fsdecode(name)).resolve() for name in names if name)


def texts_at(
    revision: str, folder: Path, wanted: Callable[[str], bool], *, option: str = "--against"
) -> dict[str, str]:
    """Return the texts of a folder where the current branch left a revision.

    Parameters
    ----------
    revision, option
        As for `changed_files`.
    folder
        The folder, in a working tree of git.
    wanted
        Whether a file counts, by its path relative to the folder.

    Returns
    -------
    dict[str, str]
        Text by path relative to the folder; none where the folder did not exist.

    Raises
    ------
    TrainyardError
        The folder is in no repository, or the revision is unknown.
    """
    git = _Git(option)
    top, base = git.branch_point(revision, folder)
    inner = folder.resolve().relative_to(top.resolve()).as_posix()
    prefix = "" if inner == "." else f"{inner}/"
    listed = git.run(top, "ls-tree", "-r", "-z", "--full-tree", base, *([inner] if prefix else []))
    blobs: dict[str, str] = {}
    for entry in filter(None, os.fsdecode(listed).split("\0")):
        about, _, path = entry.partition("\t")
        file = path.removeprefix(prefix)
        if about.split()[1] == "blob" and wanted(file):
            blobs[file] = about.split()[2]
    return dict(zip(blobs, git.contents(top, list(blobs.values())), strict=True))


@dataclass(frozen=True)
class _Git:
    """Runs git; errors name the option that needs it."""

    option: str

    def branch_point(self, revision: str, folder: Path) -> tuple[Path, str]:
        """Return the root of the working tree, and the commit in which the current branch left a revision."""
        if revision.startswith("-"):
            raise TrainyardError(f"{revision!r} is not a revision", fix="name a branch, tag or commit")
        root = Path(os.fsdecode(self.run(folder, "rev-parse", "--show-toplevel")).removesuffix("\n"))
        return root, self.run(root, "merge-base", revision, "HEAD").decode().strip()

    def contents(self, root: Path, blobs: Sequence[str]) -> list[str]:
        """Return the texts of some blobs."""
        if not blobs:
            return []
        output = self.run(root, "cat-file", "--batch", stdin="".join(f"{blob}\n" for blob in blobs).encode())
        texts = []
        position = 0
        for _ in blobs:
            end = output.index(b"\n", position)
            size = int(output[position:end].split()[2])
            texts.append(output[end + 1 : end + 1 + size].decode(errors="replace"))
            position = end + 2 + size
        return texts

    def run(self, folder: Path, *arguments: str, stdin: bytes | None = None) -> bytes:
        """Return the output of a command."""
        try:
            done = subprocess.run(  # noqa: S603
                ["git", "-C", str(folder), *arguments],  # noqa: S607
                capture_output=True,
                timeout=60,
                check=False,
                input=stdin,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise TrainyardError(
                f"git does not work: {error}", fix=f"install git, or leave {self.option} out"
            ) from error
        if done.returncode:
            reason = " ".join(done.stderr.decode(errors="replace").split()) or f"git {arguments[0]} failed"
            raise TrainyardError(
                f"{folder} cannot be compared with another revision: {reason}",
                fix=f"name a revision that exists (in CI: fetch it, with its history), or leave {self.option} out",
            )
        return done.stdout
