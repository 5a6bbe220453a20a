"""Files at a git revision, and files changed since one; the only module that runs git."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from trainyard.errors import TrainyardError


def changed_files(revision: str, folder: Path) -> frozenset[Path]:
    """Return the files that differ from the merge base of HEAD and a revision.

    Parameters
    ----------
    revision
        Branch, tag or commit, such as ``origin/main``.
    folder
        A folder in the working tree.

    Returns
    -------
    frozenset[Path]
        Resolved paths; includes untracked files, the new names of renamed ones, and all files of changed submodules,
        not deleted files.

    Raises
    ------
    TrainyardError
        The folder is not in a repository, or the revision does not exist.
    """
    git = _Git("--changed-since")
    root, base = git.branch_point(revision, folder)
    names = [
        *git.run(root, "diff", "--name-only", "-z", "--diff-filter=d", "--ignore-submodules=none", base, "--").split(
            b"\0"
        ),
        *git.run(root, "ls-files", "--others", "--exclude-standard", "-z").split(b"\0"),
    ]
    paths = ((root / os.fsdecode(name)).resolve() for name in names if name)
    return frozenset(file for path in paths for file in (_files_below(path) if path.is_dir() else (path,)))


def texts_at(revision: str, folder: Path, wanted: Callable[[str], bool]) -> dict[str, str]:
    """Return the texts of a folder at the merge base of HEAD and a revision.

    Parameters
    ----------
    revision
        As for `changed_files`.
    folder
        A folder in the working tree.
    wanted
        Selects files by their path relative to the folder.

    Returns
    -------
    dict[str, str]
        Text by path relative to the folder; empty if the folder did not exist.

    Raises
    ------
    TrainyardError
        The folder is not in a repository, or the revision does not exist.
    """
    git = _Git("--against")
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


def _files_below(folder: Path) -> Iterator[Path]:
    """Yield the files of a submodule, or of a repository in the repository, which git names as a whole."""
    return (Path(root, name).resolve() for root, _, names in os.walk(folder) for name in names)


@dataclass(frozen=True)
class _Git:
    """Runs git; errors name the option that requires it."""

    option: str

    def branch_point(self, revision: str, folder: Path) -> tuple[Path, str]:
        """Return the root of the working tree, and the merge base of HEAD and a revision."""
        if revision.startswith("-"):
            raise TrainyardError(f"{revision!r} is not a revision", fix="name a branch, tag or commit")
        # A folder of the repository may look like a bare one, whose configuration names programs that git runs.
        inside = next((each for each in (folder, *folder.resolve().parents) if (each / ".git").exists()), folder)
        root = Path(os.fsdecode(self.run(inside, "rev-parse", "--show-toplevel")).removesuffix("\n"))
        return root, self.run(root, "merge-base", revision, "HEAD").decode().strip()

    def contents(self, root: Path, blobs: Sequence[str]) -> list[str]:
        """Return the texts of blobs, in their order."""
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
        """Run a git command and return its output."""
        try:
            done = subprocess.run(  # noqa: S603
                ["git", "-c", "safe.bareRepository=explicit", "-C", str(folder), *arguments],  # noqa: S607
                capture_output=True,
                timeout=60,
                check=False,
                input=stdin,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise TrainyardError(f"git cannot be run: {error}", fix=f"install git, or omit {self.option}") from error
        if done.returncode:
            reason = " ".join(done.stderr.decode(errors="replace").split()) or f"git {arguments[0]} failed"
            raise TrainyardError(
                f"{folder} cannot be compared with another revision: {reason}",
                fix=f"name a revision that exists (in CI: fetch it, with its history), or omit {self.option}",
            )
        return done.stdout
