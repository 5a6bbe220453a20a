"""GitHub workflow commands, shown as annotations of a pull request."""

from __future__ import annotations

from trainyard.checks.printable_text import printable
from trainyard.checks.report.report import Report
from trainyard.checks.report.text import verdict


def github(report: Report) -> str:
    """Return one workflow command per finding and note, then the summary line."""
    lines = []
    for finding in report.findings:
        title = " ".join(part for part in (finding.rule or "manifest", finding.object) if part)
        where = f"{finding.path}: " if finding.path else ""
        fix = f"\nfix: {finding.fix}" if finding.fix else ""
        properties = {"file": finding.file, "line": str(finding.line), "title": title}
        named = ",".join(f"{name}={_property(value)}" for name, value in properties.items())
        lines.append(f"::{finding.severity} {named}::{_message(f'{where}{finding.message}{fix}')}")
    lines.extend(f"::notice::{_message(note)}" for note in report.notes)
    return "\n".join([*lines, printable(verdict(report))]) + "\n"


def _message(text: str) -> str:
    return printable(text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A"))


def _property(text: str) -> str:
    return _message(text).replace(":", "%3A").replace(",", "%2C")
