"""The formats of a report: what their readers rely on, and text that cannot break out of them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from xml.etree import ElementTree as Xml

import pytest

from tests.golden import assert_golden
from trainyard.checks.finding import Finding, Severity
from trainyard.checks.report import Format, written
from trainyard.checks.report.report import Report

GOLDEN = Path(__file__).parent / "golden"
EVIL = 'a%\r\n::error::b,c:d <&"\x1b[2J\x00'
REPORT = Report(
    (
        Finding(
            "spec.queue",
            "queue is foreign",
            "use yours",
            "QUE-002",
            object="Pod vision/p",
            file="jobs/a b.yaml",
            line=7,
        ),
        Finding("", EVIL, "", severity=Severity.WARNING, object="TrainJob vision/t", file="jobs/a b.yaml", line=9),
        Finding("x", "no", "f", "QUE-002", object="JobSet vision/t (from TrainJob vision/t)", file="jobs/c.yaml"),
    ),
    (("jobs/a b.yaml", "Pod vision/p"), ("jobs/a b.yaml", "TrainJob vision/t"), ("jobs/c.yaml", "TrainJob vision/t")),
    ("values.yaml holds no Kubernetes object: passed over",),
    {"exempted": 2, "baseline": 1},
)


def test_json_is_the_contract() -> None:
    document = json.loads(written(REPORT, Format.JSON))
    assert document["results"][0] == {
        "rule": "QUE-002",
        "severity": "error",
        "file": "jobs/a b.yaml",
        "object": "Pod vision/p",
        "path": "spec.queue",
        "message": "queue is foreign",
        "fix": "use yours",
    }
    assert document["summary"] == {
        "objects": 3,
        "files": 2,
        "errors": 2,
        "warnings": 1,
        "exempted": 2,
        "audited": 0,
        "baseline": 1,
        "notes": ["values.yaml holds no Kubernetes object: passed over"],
    }


def test_text_moves_no_cursor() -> None:
    text = written(REPORT, Format.TEXT)
    assert re.fullmatch(r"[^\x00-\x09\x0b-\x1f\x7f]*", text)
    assert text.splitlines()[0] == "jobs/a b.yaml:7: Pod vision/p"
    assert text.splitlines()[-1] == (
        "2 errors, 1 warning in 3 objects of 2 files (2 exempted, 1 known from the baseline)"
    )


def test_workflow_commands_cannot_be_forged() -> None:
    lines = written(REPORT, Format.GITHUB).splitlines()
    assert lines[0] == (
        "::error file=jobs/a b.yaml,line=7,title=QUE-002 Pod vision/p::spec.queue: queue is foreign%0Afix: use yours"
    )
    assert lines[1].startswith(
        "::warning file=jobs/a b.yaml,line=9,title=manifest TrainJob vision/t::a%25%0D%0A::error::b"
    )
    assert len(lines) == 5


def test_junit_has_a_case_an_object_and_stays_xml() -> None:
    root = Xml.fromstring(written(REPORT, Format.JUNIT))
    assert (root.get("tests"), root.get("failures")) == ("3", "2")
    cases = {(case.get("classname"), case.get("name")): case for case in root.iter("testcase")}
    assert len(cases) == 3
    assert cases["jobs/c.yaml", "TrainJob vision/t"].find("failure") is not None
    assert cases["jobs/a b.yaml", "TrainJob vision/t"].find("failure") is None
    assert cases["jobs/a b.yaml", "TrainJob vision/t"].find("system-out") is not None


def test_sarif_has_what_the_standard_requires() -> None:
    log = json.loads(written(REPORT, Format.SARIF))
    assert (log["version"], log["$schema"].rpartition("/")[2]) == ("2.1.0", "sarif-schema-2.1.0.json")
    (run,) = log["runs"]
    driver = run["tool"]["driver"]
    assert driver["name"]
    assert [rule["id"] for rule in driver["rules"]] == ["QUE-002", "manifest"]
    assert len(run["results"]) == 3
    for result in run["results"]:
        assert driver["rules"][result["ruleIndex"]]["id"] == result["ruleId"]
        assert result["level"] in ("none", "note", "warning", "error")
        assert result["message"]["text"]
        (location,) = result["locations"]
        physical = location["physicalLocation"]
        assert re.fullmatch(r"[!-~]+", physical["artifactLocation"]["uri"])
        assert physical["region"]["startLine"] >= 1
        assert all(isinstance(value, str) for value in result["partialFingerprints"].values())
    fingerprints = [tuple(result["partialFingerprints"].values()) for result in run["results"]]
    assert len(set(fingerprints)) == 3
    (invocation,) = run["invocations"]
    assert invocation["executionSuccessful"] is True


@pytest.mark.parametrize("form", [Format.TEXT, Format.JSON, Format.GITHUB])
def test_formats_are_the_reviewed_ones(form: Format) -> None:
    assert_golden(GOLDEN / f"check-report.{form.value}", written(REPORT, form))


@pytest.mark.parametrize("form", list(Format))
def test_an_empty_report_is_a_whole_one(form: Format) -> None:
    assert written(Report(()), form).endswith("\n")
