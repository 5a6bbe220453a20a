"""A Pulumi home without the CLI's log, whose writing dominates the run time."""

from __future__ import annotations

import os
from pathlib import Path


def home_without_logs(target: Path, home: Path | None = None) -> Path:
    """Create a Pulumi home that links to the user's, except for the log folder.

    The CLI writes every property of every call to a compressed and encrypted log that cannot be disabled. With the
    schemas of two dozen CustomResourceDefinitions this takes three quarters of the run time. If the CLI cannot create
    the log folder, it runs without the log.

    Parameters
    ----------
    target
        Folder to create or update.
    home
        The user's Pulumi home with plug-ins and credentials; None: PULUMI_HOME, else ``~/.pulumi``.
    """
    source = home or Path(os.environ.get("PULUMI_HOME") or Path.home() / ".pulumi")
    target.mkdir(exist_ok=True, mode=0o700)
    if source.resolve() == target.resolve():
        return target
    for entry in source.iterdir() if source.is_dir() else ():
        link = target / entry.name
        if entry.name != "logs" and not link.exists():
            link.unlink(missing_ok=True)
            link.symlink_to(entry.resolve())
    if not (target / "logs").exists():
        (target / "logs").touch()
    return target
