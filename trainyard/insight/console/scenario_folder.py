"""Folder with reports of `trainyard simulate`: NAME.json, and the drawing NAME.svg."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from trainyard.errors import TrainyardError
from trainyard.insight.console.views.scenario_reports import MAX_BYTES, ScenarioReport, scenario_report

_MOST: Final = 500


class ScenarioFolder:
    """Reports in a folder.

    Parameters
    ----------
    path
        The folder; None: there is none.
    """

    def __init__(self, path: Path | None) -> None:
        self.path = path

    @property
    def names(self) -> list[str]:
        """Names of the reports, without suffix."""
        if self.path is None or not self.path.is_dir():
            return []
        names = (file.stem for file in self.path.glob("*.json") if file.is_file())
        return sorted(name for name in names if name.isprintable())[:_MOST]

    def report(self, name: str) -> ScenarioReport:
        """Return a report.

        Raises
        ------
        TrainyardError
            It does not exist, or is something else.
        """
        content = self._content(name, ".json")
        if content is None:
            raise TrainyardError(f"{name} is no report, or larger than {MAX_BYTES} bytes", fix="name another file")
        return scenario_report(
            name, content.decode("utf-8", "replace"), has_drawing=self._file(name, ".svg") is not None
        )

    def drawing(self, name: str) -> bytes | None:
        """Return the drawing of a report, or None if there is none."""
        return self._content(name, ".svg")

    def _content(self, name: str, suffix: str) -> bytes | None:
        file = self._file(name, suffix)
        try:
            return None if file is None or file.stat().st_size > MAX_BYTES else file.read_bytes()
        except OSError:
            return None

    def _file(self, name: str, suffix: str) -> Path | None:
        """Return a file of a report; a name that is no report's has none."""
        if self.path is None or name not in self.names:
            return None
        file = self.path / f"{name}{suffix}"
        return file if file.is_file() else None
