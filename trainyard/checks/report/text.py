"""Text and JSON formats of a report."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from trainyard.checks.finding import Finding
from trainyard.checks.printable_text import json_text, printable, printable_output
from trainyard.checks.report.report import REPORT_KEYS, Report

_SIGNS = {"error": "✗", "warning": "!"}


def as_json(report: Report) -> str:
    """Return the JSON of the command-line contract."""
    document = {"results": [finding.as_json(REPORT_KEYS) for finding in report.findings], "summary": report.summary()}
    return json_text(document, ascii_only=False) + "\n"


def text(report: Report) -> str:
    """Return the report as text: findings by object, notes, and the summary line."""
    return printable_output("\n".join([*(printable(line) for line in _lines(report)), verdict(report)])) + "\n"


def verdict(report: Report) -> str:
    """Return the summary line: errors, warnings and checked objects."""
    summary = report.summary()
    parts = [counted(summary["errors"], "error"), counted(summary["warnings"], "warning")]
    quiet = [f"{summary[name]} {word}" for name, word in _QUIET if summary[name]]
    among = f" in {counted(summary['objects'], 'object')} of {counted(summary['files'], 'file')}"
    if summary["files"] and not summary["objects"]:
        among = f" in {counted(summary['files'], 'file')}"
    return ", ".join(parts) + among + (f" ({', '.join(quiet)})" if quiet else "")


def line(finding: Finding) -> str:
    """Return a finding in one line: severity, file, path, message, fix and rule."""
    file = f"{finding.file}: " if finding.file else ""
    rule = f" [{finding.rule}]" if finding.rule else ""
    return printable(f"{finding.severity.value}: {file}{finding}{rule}")


def counted(number: int, word: str) -> str:
    """Return a number with its unit, pluralized."""
    return f"{number} {word}{'' if number == 1 else 's'}"


def listed(names: Sequence[str], most: int) -> str:
    """Return the first names, and the number of the others."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


_QUIET = (("exempted", "exempted"), ("audited", "audited only"), ("baseline", "known from the baseline"))


def _lines(report: Report) -> Iterator[str]:
    objects: dict[tuple[str, str], list[Finding]] = {}
    for finding in report.findings:
        objects.setdefault((finding.file, finding.object), []).append(finding)
    for (file, name), findings in sorted(
        objects.items(), key=lambda entry: (entry[0][0], _first(entry[1]), entry[0][1])
    ):
        yield f"{file}:{_first(findings)}: {name or 'the file'}"
        for finding in findings:
            where = f"{finding.path}: " if finding.path else ""
            rule = f"{finding.rule} " if finding.rule else ""
            yield f"  {_SIGNS[finding.severity]} {rule}{where}{finding.message}"
            if finding.fix:
                yield f"      fix: {finding.fix}"
    yield from (f"note: {note}" for note in report.notes)


def _first(findings: Iterable[Finding]) -> int:
    return min(finding.line for finding in findings)
