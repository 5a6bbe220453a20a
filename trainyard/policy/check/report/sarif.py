"""SARIF 2.1.0, as code scanning of GitHub and others reads it."""

from __future__ import annotations

import hashlib
import json
from pathlib import PurePosixPath
from typing import Any, Final
from urllib.parse import quote

from trainyard.policy.check.results import Report, Result

__all__ = ["SCHEMA", "sarif"]

SCHEMA: Final = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_MANIFEST: Final = "manifest"
"""Rule of findings that no catalogued rule made: schema and rendering."""


def sarif(report: Report) -> str:
    """Return the report as a SARIF log with one run."""
    rules = sorted({_rule(result) for result in report.results})
    driver = {
        "name": "trainyard check",
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
                "toolExecutionNotifications": [{"level": "note", "message": {"text": note}} for note in report.notes],
            }
        ],
        "results": [_result(result, rules.index(_rule(result))) for result in report.results],
    }
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2, ensure_ascii=False) + "\n"


def _described(rule: str, report: Report) -> dict[str, Any]:
    example = next(result for result in report.results if _rule(result) == rule)
    about = "A manifest that the API server or the controller refuses" if rule == _MANIFEST else f"Rule {rule}"
    return {
        "id": rule,
        "name": rule,
        "shortDescription": {"text": about},
        "help": {"text": example.fix or "see docs/rules.md"},
        "defaultConfiguration": {"level": example.severity},
    }


def _result(result: Result, index: int) -> dict[str, Any]:
    where = f"{result.path}: " if result.path else ""
    fix = f" Fix: {result.fix}." if result.fix else ""
    artifact: dict[str, Any] = {"uri": quote(result.file)}
    if not PurePosixPath(result.file).is_absolute():
        artifact["uriBaseId"] = "%SRCROOT%"
    identity = "\0".join((_rule(result), result.file, result.object, result.path))
    return {
        "ruleId": _rule(result),
        "ruleIndex": index,
        "level": result.severity,
        "message": {"text": f"{result.object}: {where}{result.message}.{fix}"},
        "locations": [
            {
                "physicalLocation": {"artifactLocation": artifact, "region": {"startLine": result.line}},
                "logicalLocations": [{"name": result.object, "fullyQualifiedName": f"{result.object} {result.path}"}],
            }
        ],
        "partialFingerprints": {"trainyard/v1": hashlib.sha256(identity.encode()).hexdigest()[:32]},
    }


def _rule(result: Result) -> str:
    return result.rule or _MANIFEST


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("trainyard")
    except PackageNotFoundError:
        return "0"
