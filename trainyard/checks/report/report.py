"""Report of a check: findings and counts, independent of the format."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from trainyard.checks.finding import Finding, Severity

REPORT_KEYS = {name: name for name in ("rule", "severity", "file", "object", "path", "message", "fix")}
"""JSON keys of a finding in a report; part of the command-line contract."""


@dataclass(frozen=True)
class Report:
    """Report of a check.

    Parameters
    ----------
    findings
        Findings, sorted by file, object and path.
    checked
        File and name of each checked object, sorted; rendered objects belong to their TrainJob. No name: the file as a
        whole.
    notes
        What was skipped, and why.
    counts
        Number of hidden findings: ``exempted`` by the settings, ``audited`` rules, ``baseline`` entries.
    tool
        Name of the command in SARIF and JUnit.
    """

    findings: tuple[Finding, ...]
    checked: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)
    tool: str = "trainyard check"

    @property
    def errors(self) -> tuple[Finding, ...]:
        """Findings of severity error; they fail the check."""
        return tuple(finding for finding in self.findings if finding.severity is Severity.ERROR)

    @property
    def warnings(self) -> tuple[Finding, ...]:
        """Findings of severity warning."""
        return tuple(finding for finding in self.findings if finding.severity is Severity.WARNING)

    def with_findings(self, findings: Iterable[Finding], **counts: int) -> Report:
        """Return the report with these findings instead, sorted and without duplicates."""
        ordered = tuple(sorted(set(findings), key=_order))
        return replace(self, findings=ordered, counts={**self.counts, **counts})

    def with_notes(self, *notes: str) -> Report:
        """Return the report with additional notes."""
        return replace(self, notes=(*self.notes, *notes))

    def summary(self) -> dict[str, Any]:
        """Return the counts and notes of the report."""
        return {
            "objects": sum(bool(name) for _, name in self.checked),
            "files": len({file for file, _ in self.checked}),
            "errors": len(self.errors),
            "warnings": len(self.warnings),
            "exempted": self.counts.get("exempted", 0),
            "audited": self.counts.get("audited", 0),
            "baseline": self.counts.get("baseline", 0),
            "notes": list(self.notes),
        }


def _order(finding: Finding) -> tuple[str, str, str, str, str]:
    return finding.file, finding.object, finding.path, finding.rule or "", finding.message
