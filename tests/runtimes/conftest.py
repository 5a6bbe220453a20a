"""A small catalog of its own to change: one runtime of several versions, one that is a draft."""

from __future__ import annotations

from datetime import date
from functools import cache
from pathlib import Path

import pytest

from trainyard.jobs.runtimes.folder import CatalogFolder, read_folder, write_folder
from trainyard.jobs.runtimes.release.version_lifecycle import deprecate, move_alias, release
from trainyard.jobs.runtimes.runtime_scaffold import NewRuntime, known_runtimes, new_version

SHIPPED = Path(__file__).resolve().parents[2] / "runtimes"
RELEASED, TODAY = date(2027, 1, 1), date(2027, 2, 1)


@cache
def small() -> dict[str, str]:
    """Return a catalog: ``mine`` 1.0 (deprecated until 2027-06-30), 1.1 (the alias), 1.2 (a draft)."""
    folder = CatalogFolder(Path("/nowhere"), {})
    known = known_runtimes(folder, [SHIPPED])
    for version in ("1.0", "1.1", "1.2"):
        wanted = NewRuntime("mine", version, "plain" if version == "1.0" else None, owner="team", summary="Ours")
        folder = new_version(folder, wanted, known).after
        if version != "1.2":
            folder = release(folder, "mine", version, today=RELEASED, changes=f"Brings {version}").after
    folder = move_alias(folder, "mine", "1.1").after
    return dict(deprecate(folder, "mine", "1.0", remove_after=date(2027, 6, 30), today=TODAY).after.texts)


@pytest.fixture
def catalog(tmp_path: Path) -> CatalogFolder:
    """The small catalog, written to a folder."""
    root = tmp_path / "catalog"
    root.mkdir()
    write_folder(CatalogFolder(root, {}), CatalogFolder(root, small()))
    return read_folder(root)
