"""Finding about the conversion of one field."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from trainyard.checks.finding import Finding, Severity

_KEYS: Final = {"path": "path", "value": "value", "severity": "fidelity", "message": "message", "fix": "fix"}


class Fidelity(StrEnum):
    """Fidelity of a converted field."""

    LOSSLESS = "lossless"
    """The new objects have the same setting."""
    CHANGED = "changed"
    """Another field or mechanism replaces it."""
    LOST = "lost"
    """Not supported; requires manual action."""


@dataclass(frozen=True)
class FieldFinding(Finding):
    """Finding about one field; the path is that in the legacy object, and the fix a manual action, if required.

    Parameters
    ----------
    value
        Legacy value.
    fidelity
        Fidelity of the conversion.
    """

    value: Any = field(default=None, kw_only=True)
    fidelity: Fidelity = field(default=Fidelity.LOST, kw_only=True)

    @classmethod
    def of(cls, path: str, value: Any, fidelity: Fidelity, message: str, fix: str = "") -> FieldFinding:
        """Return a finding; only a lost field is an error."""
        severity = Severity.ERROR if fidelity is Fidelity.LOST else Severity.WARNING
        return cls(path, message, fix, severity=severity, value=value, fidelity=fidelity)

    def as_json(self, keys: Mapping[str, str] = _KEYS) -> dict[str, Any]:
        """Return the finding as JSON; the key ``severity`` contains the fidelity."""
        return super().as_json(keys)

    def __str__(self) -> str:
        return f"{self.fidelity.value}: {super().__str__()}"
