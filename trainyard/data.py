"""Shipped data (rules, runtimes, sources): beside the package in a checkout, inside it in a wheel."""

from __future__ import annotations

from pathlib import Path

__all__ = ["components_folder", "data_folder", "project_root"]

_PACKAGE = Path(__file__).resolve().parent


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
        if (folder / "Pulumi.yaml").is_file() and (folder / "stacks").is_dir():
            return folder
    return _PACKAGE.parent
