"""A Pulumi home without the log that costs most of a run."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["quiet_home"]


def quiet_home(target: Path, home: Path | None = None) -> Path:
    """Make a Pulumi home that is the user's in everything but the log.

    The CLI writes every property of every call to a compressed and encrypted log that cannot be switched off. With
    the schemas of two dozen CustomResourceDefinitions that is three quarters of the time of a run. Where the log's
    folder cannot be made, the CLI goes on without it.

    Parameters
    ----------
    target
        Folder to make, or to bring up to date.
    home
        The user's Pulumi home with plug-ins and credentials; PULUMI_HOME, else ``~/.pulumi``, where not given.
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
