"""Note about the conversion of one field."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

__all__ = ["Fidelity", "Note"]


class Fidelity(StrEnum):
    """How much of a field is still there."""

    LOSSLESS = "lossless"
    """The new objects say the same."""
    CHANGED = "changed"
    """Something does the same job in another way."""
    LOST = "lost"
    """Nothing does it; a person has to look."""


@dataclass(frozen=True)
class Note:
    """One field and what became of it.

    Parameters
    ----------
    path
        Path in the old object, empty for the object as a whole.
    value
        Its value there.
    severity
        How much of it is still there.
    message
        What became of it.
    fix
        What to do, where something has to be done.
    """

    path: str
    value: Any
    severity: Fidelity
    message: str
    fix: str = ""

    def as_json(self) -> dict[str, Any]:
        """Return the note as plain data."""
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
