"""Wall clock of one controller, wrong by a chosen time."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest


class Clock:
    """The clock of one controller."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.modules = folder / "clock"
        self.modules.mkdir()
        shutil.copy(Path(__file__).with_name("shifted_clock.py"), self.modules / "sitecustomize.py")
        self._offset = folder / "offset"
        self.jump(0)
        monkeypatch.setenv("FAULTS_CLOCK_OFFSET", str(self._offset))

    def jump(self, seconds: int) -> None:
        """Be wrong by so many seconds from now on."""
        replacement = self._offset.with_suffix(".new")
        replacement.write_text(str(seconds))
        replacement.replace(self._offset)
