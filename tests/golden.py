"""Golden files: reviewed like code, rewritten with ``TRAINYARD_UPDATE_GOLDENS=1``."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["assert_golden"]


def assert_golden(path: Path, text: str) -> None:
    """Compare a text with its golden file."""
    if os.environ.get("TRAINYARD_UPDATE_GOLDENS"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert path.is_file(), f"{path} does not exist; write it with TRAINYARD_UPDATE_GOLDENS=1"
    assert text == path.read_text(), f"{path} differs; rewrite it with TRAINYARD_UPDATE_GOLDENS=1 and review the change"
