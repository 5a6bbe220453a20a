"""SARIF 2.1.0 for code scanning."""

from __future__ import annotations

import hashlib
from pathlib import PurePosixPath
from typing import Any, Final
from urllib.parse import quote

from trainyard.checks.finding import Finding
from trainyard.checks.printable_text import json_text, printable
from trainyard.checks.report.report import Report

SCHEMA: Final = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_MANIFEST: Final = "manifest"
"""Rule id of findings without one: schema and rendering."""


def sarif(report: Report) -> str:
    """Return the report as a SARIF log with one run."""
    rules = sorted({_rule(finding) for finding in report.findings})
    driver = {
        "name": report.tool,
        "version": _version(),
        "informationUri": "https://github.com/trainyard/trainyard",
        "rules": [_described(rule, report) for rule in rules],
    }
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "invocations": [
            {
                "executionSuccessful": True,
                "toolExecutionNotifications": [
                    {"level": "note", "message": {"text": _literal(note)}} for note in report.notes
                ],
            }
        ],
        "results": [_located(finding, rules.index(_rule(finding))) for finding in report.findings],
    }
    return json_text({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, ascii_only=False) + "\n"


def _described(rule: str, report: Report) -> dict[str, Any]:
    example = next(finding for finding in report.findings if _rule(finding) == rule)
    about = "A manifest that the API server or the controller rejects" if rule == _MANIFEST else f"Rule {rule}"
    return {
        "id": rule,
        "name": rule,
        "shortDescription": {"text": about},
        "help": {"text": example.fix or "see docs/reference/rules.md"},
        "defaultConfiguration": {"level": example.severity},
    }


def _located(finding: Finding, index: int) -> dict[str, Any]:
    about = f"{finding.object}: " if finding.object else ""
    where = f"{finding.path}: " if finding.path else ""
    fix = f" Fix: {finding.fix}." if finding.fix else ""
    place = f"{finding.object} {finding.path}" if finding.object else finding.path
    artifact: dict[str, Any] = {"uri": quote(finding.file)}
    if not PurePosixPath(finding.file).is_absolute():
        artifact["uriBaseId"] = "%SRCROOT%"
    identity = "\0".join((_rule(finding), finding.file, finding.object, finding.path))
    return {
        "ruleId": _rule(finding),
        "ruleIndex": index,
        "level": finding.severity,
        "message": {"text": _literal(f"{about}{where}{finding.message}.{fix}")},
        "locations": [
            {
                "physicalLocation": {"artifactLocation": artifact, "region": {"startLine": finding.line}},
                "logicalLocations": [{"name": finding.object or finding.path, "fullyQualifiedName": place}],
            }
        ],
        "partialFingerprints": {"trainyard/v1": hashlib.sha256(identity.encode()).hexdigest()[:32]},
    }


def _literal(text: str) -> str:
    """Return a message without links, which viewers of SARIF render."""
    return printable(text).replace("](", "] (")


def _rule(finding: Finding) -> str:
    return finding.rule or _MANIFEST


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("trainyard-platform")
    except PackageNotFoundError:
        return "0"
