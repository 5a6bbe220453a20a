"""Report of a check as text, JSON, SARIF, JUnit XML or GitHub annotations."""

from __future__ import annotations

from enum import StrEnum

from trainyard.checks.report import text
from trainyard.checks.report.report import Report


class Format(StrEnum):
    """Report format."""

    TEXT = "text"
    JSON = "json"
    SARIF = "sarif"
    JUNIT = "junit"
    GITHUB = "github"


def written(report: Report, form: Format) -> str:
    """Return the report in a format, with a trailing newline."""
    match form:
        case Format.TEXT:
            return text.text(report)
        case Format.JSON:
            return text.as_json(report)
        case Format.SARIF:
            from trainyard.checks.report import sarif

            return sarif.sarif(report)
        case Format.JUNIT:
            from trainyard.checks.report import junit

            return junit.junit(report)
        case Format.GITHUB:
            from trainyard.checks.report import github

            return github.github(report)
