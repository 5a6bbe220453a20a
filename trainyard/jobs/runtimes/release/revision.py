"""Catalog folder at a git revision."""

from __future__ import annotations

from pathlib import Path

from trainyard.jobs.runtimes.folder import INDEX, LOCK, CatalogFolder
from trainyard.manifests.revisions import texts_at


def folder_at(root: Path, revision: str) -> CatalogFolder:
    """Return a folder's content at the merge base of the current branch and a revision.

    Parameters
    ----------
    root
        The folder, in a git working tree.
    revision
        Branch, tag or commit, such as ``origin/main``.

    Returns
    -------
    CatalogFolder
        Its files; empty if the folder did not exist.

    Raises
    ------
    TrainyardError
        The folder is not in a repository, or the revision is unknown.
    """
    return CatalogFolder(root, texts_at(revision, root, _is_of_a_catalog))


def _is_of_a_catalog(file: str) -> bool:
    return file in (INDEX, LOCK) or (file.endswith(".yaml") and file.count("/") == 1)
