"""The formats of a report: one module each, with one function from the report to text."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum

from trainyard.policy.check.report import junit, plain, sarif, workflow
from trainyard.policy.check.results import Report

__all__ = ["Format", "written"]


class Format(StrEnum):
    """A format of reports."""

    TEXT = "text"
    JSON = "json"
    SARIF = "sarif"
    JUNIT = "junit"
    GITHUB = "github"


_WRITERS: dict[Format, Callable[[Report], str]] = {
    Format.TEXT: plain.text,
    Format.JSON: plain.as_json,
    Format.SARIF: sarif.sarif,
    Format.JUNIT: junit.junit,
    Format.GITHUB: workflow.github,
}


def written(report: Report, form: Format) -> str:
    """Return a report in a format, with a newline at its end."""
    return _WRITERS[form](report)
