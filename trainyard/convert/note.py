"""Note about the conversion of one field."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

__all__ = ["Fidelity", "Note"]


class Fidelity(StrEnum):
    """Fidelity of a converted field."""

    LOSSLESS = "lossless"
    """The new objects have the same setting."""
    CHANGED = "changed"
    """Another field or mechanism replaces it."""
    LOST = "lost"
    """Not supported; requires manual action."""


@dataclass(frozen=True)
class Note:
    """Note about one field.

    Parameters
    ----------
    path
        Path in the legacy object; empty for the whole object.
    value
        Legacy value.
    severity
        Fidelity of the conversion.
    message
        Result of the conversion.
    fix
        Manual action, if required.
    """

    path: str
    value: Any
    severity: Fidelity
    message: str
    fix: str = ""

    def as_json(self) -> dict[str, Any]:
        """Return the note as JSON data."""
        return {
            "path": self.path,
            "value": self.value,
            "severity": self.severity.value,
            "message": self.message,
            "fix": self.fix,
        }

    def __str__(self) -> str:
        where = f"{self.path}: " if self.path else ""
        fix = f" ({self.fix})" if self.fix else ""
        return f"{self.severity.value}: {where}{self.message}{fix}"
