"""Output of checks of settings: the findings in a format, and the exit code."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence

import typer

from trainyard.checks.finding import Finding
from trainyard.checks.printable_text import PrintableStream, json_text
from trainyard.checks.report import Format, written
from trainyard.checks.report.report import Report
from trainyard.checks.report.text import counted, line


def show(report: Report, form: Format) -> None:
    """Print a report."""
    text = written(report, form)
    if form is Format.GITHUB and isinstance(sys.stdout, PrintableStream):
        sys.stdout.write_commands(text)  # Its messages are encoded.
    else:
        typer.echo(text, nl=False)


def answer(
    findings: Sequence[Finding],
    form: Format,
    *,
    tool: str,
    keys: Mapping[str, str],
    files: Iterable[str],
    strict: bool = False,
) -> None:
    """Print the findings and exit: 0 without errors, 1 with them.

    Parameters
    ----------
    findings
        The findings, in order.
    form
        Format of the output.
    tool
        Name of the command in SARIF and JUnit.
    keys
        Attribute of a finding by JSON key.
    files
        Names of the checked files.
    strict
        Whether warnings fail the check.
    """
    report = Report(tuple(findings), tuple((name, "") for name in sorted(files)), tool=tool)
    fails = bool(report.findings if strict else report.errors)
    match form:
        case Format.TEXT:
            counts = f"{counted(len(report.errors), 'error')}, {counted(len(report.warnings), 'warning')}"
            typer.echo("\n".join([*map(line, findings), counts if findings else "No issues found."]))
        case Format.JSON:
            results = [finding.as_json(keys) for finding in findings]
            typer.echo(json_text({"ok": not fails, "results": results}))
        case _:
            show(report, form)
    raise typer.Exit(1 if fails else 0)
