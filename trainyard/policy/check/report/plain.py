"""Reports as text and as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from trainyard.policy.check.results import Report, Result

__all__ = ["as_json", "counted", "printable", "text", "verdict"]

_SIGNS = {"error": "✗", "warning": "!"}


def as_json(report: Report) -> str:
    """Return the JSON of the command-line contract."""
    document = {"results": [result.as_json() for result in report.results], "summary": report.summary()}
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def text(report: Report) -> str:
    """Return the report for people: findings by object, then what it comes to."""
    return "\n".join([*(printable(line) for line in _lines(report)), verdict(report)]) + "\n"


def verdict(report: Report) -> str:
    """Return what a report comes to, in one line."""
    summary = report.summary()
    parts = [counted(summary["errors"], "error"), counted(summary["warnings"], "warning")]
    quiet = [f"{summary[name]} {word}" for name, word in _QUIET if summary[name]]
    among = f" in {counted(summary['objects'], 'object')} of {counted(summary['files'], 'file')}"
    return ", ".join(parts) + among + (f" ({', '.join(quiet)})" if quiet else "")


def counted(number: int, word: str) -> str:
    """Return a number with its word."""
    return f"{number} {word}{'' if number == 1 else 's'}"


def printable(line: str) -> str:
    """Return a line without what would move the cursor of a terminal or end the line."""
    return "".join(sign if sign.isprintable() else " " for sign in line)


_QUIET = (("exempted", "exempted"), ("audited", "audited only"), ("baseline", "known from the baseline"))


def _lines(report: Report) -> Iterator[str]:
    objects: dict[tuple[str, str], list[Result]] = {}
    for result in report.results:
        objects.setdefault((result.file, result.object), []).append(result)
    for (file, name), results in sorted(
        objects.items(), key=lambda entry: (entry[0][0], _first(entry[1]), entry[0][1])
    ):
        yield f"{file}:{_first(results)}: {name or 'the file'}"
        for result in results:
            where = f"{result.path}: " if result.path else ""
            rule = f"{result.rule} " if result.rule else ""
            yield f"  {_SIGNS[result.severity]} {rule}{where}{result.message}"
            if result.fix:
                yield f"      fix: {result.fix}"
    yield from (f"note: {note}" for note in report.notes)


def _first(results: Iterable[Result]) -> int:
    return min(result.line for result in results)
