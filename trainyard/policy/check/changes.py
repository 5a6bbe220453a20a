"""Files changed since a revision: committed, staged, edited or new."""

from __future__ import annotations

import subprocess
from pathlib import Path

from trainyard.problem import TrainyardError

__all__ = ["changed_files"]


def changed_files(revision: str, folder: Path) -> frozenset[Path]:
    """Return the files that differ from where the current branch left a revision.

    Parameters
    ----------
    revision
        Branch, tag or commit, such as ``origin/main``.
    folder
        A folder of the repository.

    Returns
    -------
    frozenset[Path]
        Resolved paths; renamed files under their new name, untracked ones included, removed ones not.

    Raises
    ------
    TrainyardError
        The folder is in no repository, or the revision is unknown.
    """
    if revision.startswith("-"):
        raise TrainyardError(f"{revision!r} is no revision", fix="name a branch, tag or commit")
    root = Path(_git(folder, "rev-parse", "--show-toplevel").strip())
    base = _git(root, "merge-base", revision, "HEAD").strip()
    names = [
        *_git(root, "diff", "--name-only", "-z", "--diff-filter=d", base, "--").split("\0"),
        *_git(root, "ls-files", "--others", "--exclude-standard", "-z").split("\0"),
    ]
    return frozenset((root / name).resolve() for name in names if name)


def _git(folder: Path, *arguments: str) -> str:
    try:
        done = subprocess.run(  # noqa: S603
            ["git", "-C", str(folder), *arguments],  # noqa: S607
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise TrainyardError(f"git does not work: {error}", fix="install git, or leave --changed-since out") from error
    if done.returncode:
        reason = " ".join(done.stderr.split()) or f"git {arguments[0]} failed"
        raise TrainyardError(
            f"What changed cannot be told: {reason}",
            fix="name a revision that is there (in CI: fetch it, with its history), or leave --changed-since out",
        )
    return done.stdout
