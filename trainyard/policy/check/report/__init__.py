"""The formats of a report: one module each, with one function from the report to text."""

from __future__ import annotations

from enum import StrEnum

from trainyard.policy.check.report import plain
from trainyard.policy.check.results import Report

__all__ = ["Format", "written"]


class Format(StrEnum):
    """A format of reports."""

    TEXT = "text"
    JSON = "json"
    SARIF = "sarif"
    JUNIT = "junit"
    GITHUB = "github"


def written(report: Report, form: Format) -> str:
    """Return a report in a format, with a newline at its end."""
    match form:
        case Format.TEXT:
            return plain.text(report)
        case Format.JSON:
            return plain.as_json(report)
        case Format.SARIF:
            from trainyard.policy.check.report import sarif

            return sarif.sarif(report)
        case Format.JUNIT:
            from trainyard.policy.check.report import junit

            return junit.junit(report)
        case Format.GITHUB:
            from trainyard.policy.check.report import workflow

            return workflow.github(report)
