"""Catalog folder at a git revision."""

from __future__ import annotations

import subprocess
from pathlib import Path

from trainyard.problem import TrainyardError
from trainyard.runtimes.folder import INDEX, LOCK, CatalogueFolder

__all__ = ["folder_at"]


def folder_at(root: Path, revision: str) -> CatalogueFolder:
    """Return what a folder held where the current branch left a revision.

    Parameters
    ----------
    root
        The folder, in a working tree of git.
    revision
        Branch, tag or commit, such as ``origin/main``.

    Returns
    -------
    CatalogueFolder
        Its texts; none where the folder did not exist.

    Raises
    ------
    TrainyardError
        The folder is in no repository, or the revision is unknown.
    """
    if revision.startswith("-"):
        raise TrainyardError(f"{revision!r} is no revision", fix="name a branch, tag or commit")
    top = Path(_git(root, "rev-parse", "--show-toplevel").decode().strip())
    base = _git(top, "merge-base", revision, "HEAD").decode().strip()
    inner = root.resolve().relative_to(top.resolve()).as_posix()
    prefix = "" if inner == "." else f"{inner}/"
    listed = _git(top, "ls-tree", "-r", "-z", "--full-tree", base, *([inner] if prefix else [])).decode()
    blobs: dict[str, str] = {}
    for entry in filter(None, listed.split("\0")):
        about, _, path = entry.partition("\t")
        file = path.removeprefix(prefix)
        if about.split()[1] == "blob" and (file in (INDEX, LOCK) or (file.endswith(".yaml") and file.count("/") == 1)):
            blobs[file] = about.split()[2]
    return CatalogueFolder(root, dict(zip(blobs, _contents(top, list(blobs.values())), strict=True)))


def _contents(top: Path, blobs: list[str]) -> list[str]:
    if not blobs:
        return []
    output = _git(top, "cat-file", "--batch", stdin="".join(f"{blob}\n" for blob in blobs).encode())
    texts = []
    position = 0
    for _ in blobs:
        end = output.index(b"\n", position)
        size = int(output[position:end].split()[2])
        texts.append(output[end + 1 : end + 1 + size].decode(errors="replace"))
        position = end + 2 + size
    return texts


def _git(folder: Path, *arguments: str, stdin: bytes | None = None) -> bytes:
    try:
        done = subprocess.run(  # noqa: S603
            ["git", "-C", str(folder), *arguments],  # noqa: S607
            capture_output=True,
            timeout=60,
            check=False,
            input=stdin,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise TrainyardError(f"git does not work: {error}", fix="install git, or leave --against out") from error
    if done.returncode:
        reason = " ".join(done.stderr.decode(errors="replace").split()) or f"git {arguments[0]} failed"
        raise TrainyardError(
            f"What {folder} was cannot be told: {reason}",
            fix="name a revision that is there (in CI: fetch it, with its history), or leave --against out",
        )
    return done.stdout
