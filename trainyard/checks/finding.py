"""Finding of a check, and its severity."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Severity(StrEnum):
    """Effect of a finding: an error fails the check, a warning does not."""

    ERROR = "error"
    WARNING = "warning"


_CONTRACT = {"path": "path", "message": "message", "fix": "fix", "rule": "rule"}


@dataclass(frozen=True, order=True)
class Finding:
    """One defect: where it is, what is wrong, and the fix.

    Parameters
    ----------
    path
        Field path in the checked object (``spec.trainer.numNodes``); empty: the whole object.
    message
        What is wrong, with the offending value.
    fix
        What to change, in the imperative.
    rule
        Id of the violated rule; None: the violation has no rule id.
    severity
        Error or warning.
    object
        The checked object: a queue, a domain, or ``Kind namespace/name``; empty: unknown.
    file
        File name as given; empty: not read from a file.
    line
        Line in the file, 1-based.
    """

    path: str
    message: str
    fix: str = ""
    rule: str | None = None
    severity: Severity = field(default=Severity.ERROR, kw_only=True)
    object: str = field(default="", kw_only=True)
    file: str = field(default="", kw_only=True)
    line: int = field(default=1, kw_only=True)

    @classmethod
    def warning(cls, path: str, message: str, fix: str = "", rule: str | None = None) -> Finding:
        """Return a warning."""
        return cls(path, message, fix, rule, severity=Severity.WARNING)

    def as_json(self, keys: Mapping[str, str] = _CONTRACT) -> dict[str, Any]:
        """Return the finding as JSON.

        Parameters
        ----------
        keys
            Attribute by JSON key; default: path, message, fix and rule.
        """
        return {key: getattr(self, name) for key, name in keys.items()}

    def __str__(self) -> str:
        where = f"{self.path}: " if self.path else ""
        fix = f" ({self.fix})" if self.fix else ""
        return f"{where}{self.message}{fix}"
