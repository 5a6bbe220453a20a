"""Shipped data (rules, runtimes, sources): beside the package in a checkout, inside it in a wheel."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

PROJECT_VARIABLE: Final = "TRAINYARD_PROJECT"
"""Environment variable with the project folder, for programs that another one starts in their own folder."""
_PACKAGE = Path(__file__).resolve().parent
_PROJECT_FILES = ("Pulumi.yaml", "Pulumi.yml", "Pulumi.json")


def data_folder(name: str) -> Path:
    """Return the shipped folder ``policies``, ``runtimes`` or ``toolchain``."""
    packaged = _PACKAGE / "data" / name
    return packaged if packaged.is_dir() else _PACKAGE.parent / name


def components_folder() -> Path:
    """Return the folder of the components: ``trainyard/components`` in a wheel, ``components`` in a checkout."""
    packaged = _PACKAGE / "components"
    return packaged if packaged.is_dir() else _PACKAGE.parent / "components"


def project_root() -> Path:
    """Return the project folder at or above the working directory, or else that of this checkout."""
    for folder in (Path.cwd(), *Path.cwd().parents):
        if _has_stacks(folder):
            return folder
    return _PACKAGE.parent


def configured_folder(name: str) -> Path:
    """Return a folder that settings name: relative to the project with their stacks, else to the Pulumi project.

    A program that imports the components has no stacks; the language host runs it in its Pulumi project. The engine
    starts the policy analyzer in the folder of its pack, with `PROJECT_VARIABLE` set.
    """
    if given := os.environ.get(PROJECT_VARIABLE):
        return Path(given) / name
    project = project_root()
    if not _has_stacks(project):
        here = Path.cwd()
        found = (each for each in (here, *here.parents) if any((each / file).is_file() for file in _PROJECT_FILES))
        project = next(found, here)
    return project / name


def _has_stacks(folder: Path) -> bool:
    return (folder / "Pulumi.yaml").is_file() and (folder / "stacks").is_dir()
