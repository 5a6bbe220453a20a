"""Results of a check: one per violation, and the report that all formats are written from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

__all__ = ["Report", "Result", "Severity"]

Severity = Literal["error", "warning"]


@dataclass(frozen=True)
class Result:
    """One finding in a file.

    Parameters
    ----------
    rule
        Id of the rule; None where the schema or the rendering found it.
    severity
        ``error`` where a cluster would refuse the object, else ``warning``.
    file
        The file as it was named; ``cluster`` for what exists in one.
    object
        Kind, namespace and name.
    path
        Field path in the object; empty for the whole of it.
    message, fix
        What is wrong and what to do.
    line
        Line in the file, counted from 1.
    """

    rule: str | None
    severity: Severity
    file: str
    object: str
    path: str
    message: str
    fix: str
    line: int = 1

    def as_json(self) -> dict[str, str | None]:
        """Return the shape of the command-line contract."""
        names = ("rule", "severity", "file", "object", "path", "message", "fix")
        return {name: getattr(self, name) for name in names}

    @property
    def order(self) -> tuple[str, str, str, str, str]:
        """Sort key: by file, object and path."""
        return self.file, self.object, self.path, self.rule or "", self.message


@dataclass(frozen=True)
class Report:
    """What became of a check.

    Parameters
    ----------
    results
        Findings, sorted.
    checked
        File and name of every object that was judged, sorted; rendered objects belong to their TrainJob.
    notes
        What was passed over, and why.
    counts
        Findings that do not show: ``exempted`` by the settings, ``audited`` rules, ``baseline`` entries.
    """

    results: tuple[Result, ...]
    checked: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)

    @property
    def errors(self) -> tuple[Result, ...]:
        """Findings for which a cluster would refuse the object."""
        return tuple(result for result in self.results if result.severity == "error")

    @property
    def warnings(self) -> tuple[Result, ...]:
        """Findings that a cluster would let pass."""
        return tuple(result for result in self.results if result.severity == "warning")

    def with_results(self, results: Iterable[Result], **counts: int) -> Report:
        """Return the report with other results."""
        ordered = tuple(sorted(set(results), key=lambda result: result.order))
        return replace(self, results=ordered, counts={**self.counts, **counts})

    def with_notes(self, *notes: str) -> Report:
        """Return the report with more notes."""
        return replace(self, notes=(*self.notes, *notes))

    def summary(self) -> dict[str, Any]:
        """Return the numbers of the report."""
        return {
            "objects": len(self.checked),
            "files": len({file for file, _ in self.checked}),
            "errors": len(self.errors),
            "warnings": len(self.warnings),
            "exempted": self.counts.get("exempted", 0),
            "audited": self.counts.get("audited", 0),
            "baseline": self.counts.get("baseline", 0),
            "notes": list(self.notes),
        }
