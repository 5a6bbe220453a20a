"""Annotations of pull requests: the workflow commands of GitHub."""

from __future__ import annotations

from trainyard.policy.check.report.plain import printable, verdict
from trainyard.policy.check.results import Report

__all__ = ["github"]


def github(report: Report) -> str:
    """Return one workflow command a finding, then what it comes to."""
    lines = []
    for result in report.results:
        title = " ".join(part for part in (result.rule or "manifest", result.object) if part)
        where = f"{result.path}: " if result.path else ""
        fix = f"\nfix: {result.fix}" if result.fix else ""
        properties = {"file": result.file, "line": str(result.line), "title": title}
        named = ",".join(f"{name}={_property(value)}" for name, value in properties.items())
        lines.append(f"::{result.severity} {named}::{_message(f'{where}{result.message}{fix}')}")
    lines.extend(f"::notice::{_message(note)}" for note in report.notes)
    return "\n".join([*lines, printable(verdict(report))]) + "\n"


def _message(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _message(text).replace(":", "%3A").replace(",", "%2C")
