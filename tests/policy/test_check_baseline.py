"""Known violations: silent until their day, and never forgotten."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest
import yaml

from trainyard.checks.finding import Finding, Severity
from trainyard.checks.report.report import Report
from trainyard.errors import TrainyardError
from trainyard.policy.check.baseline import BaselineEntry, apply_baseline, baseline_text, read_baseline

TODAY = datetime.date(2026, 6, 1)
LATER = datetime.date(2026, 7, 1)
ERROR = Finding("spec.queue", "foreign", "fix", "QUE-002", object="Pod vision/p", file="a.yaml", line=3)
WARNING = Finding("spec", "odd", "fix", severity=Severity.WARNING, object="Pod vision/p", file="a.yaml", line=2)
REPORT = Report((WARNING, ERROR), (("a.yaml", "Pod vision/p"),))


def entry(result: Finding = ERROR, expires: datetime.date = LATER) -> BaselineEntry:
    return BaselineEntry(rule=result.rule, object=result.object, path=result.path, reason="old", expires=expires)


def test_an_entry_silences_an_equal_finding_only() -> None:
    report = apply_baseline(REPORT, [entry()], "b.yaml", TODAY)
    assert (report.findings, report.summary()["baseline"]) == ((WARNING,), 1)
    other = entry().model_copy(update={"path": "spec.other"})
    assert ERROR in apply_baseline(REPORT, [other], "b.yaml", TODAY).findings


@pytest.mark.parametrize(("day", "silent"), [(LATER - datetime.timedelta(1), True), (LATER, False)])
def test_an_entry_ends_on_its_day(day: datetime.date, silent: bool) -> None:
    report = apply_baseline(REPORT, [entry()], "b.yaml", day)
    assert (ERROR not in report.findings) is silent
    assert any("expired on 2026-07-01" in result.message for result in report.warnings) is not silent


def test_an_entry_that_nothing_needs_is_reported_unless_the_check_was_partial() -> None:
    stale = entry().model_copy(update={"object": "Pod vision/gone"})
    (found,) = (
        result for result in apply_baseline(REPORT, [stale], "b.yaml", TODAY).findings if result.file == "b.yaml"
    )
    assert (found.severity, found.path) == ("warning", "[0]")
    assert "is unused" in found.message
    assert apply_baseline(REPORT, [stale], "b.yaml", TODAY, partial=True).findings == REPORT.findings


def test_a_written_baseline_silences_every_error_and_keeps_what_holds(tmp_path: Path) -> None:
    other = Finding("spec", "no", "", "ACC-001", object="Pod vision/p", file="a.yaml")
    report = Report((ERROR, other))
    text = baseline_text(report, [entry()], reason="new", expires=LATER, today=TODAY)
    (tmp_path / "b.yaml").write_text(text)
    entries = read_baseline(tmp_path / "b.yaml")
    assert [(each.rule, each.reason) for each in entries] == [("ACC-001", "new"), ("QUE-002", "old")]
    assert apply_baseline(report, entries, "b.yaml", TODAY).findings == ()


def test_an_expired_entry_is_written_again() -> None:
    text = baseline_text(Report((ERROR,)), [entry(expires=TODAY)], reason="again", expires=LATER, today=TODAY)
    assert [each["reason"] for each in yaml.safe_load(text)] == ["again"]


def test_a_baseline_is_not_written_for_the_past() -> None:
    with pytest.raises(TrainyardError, match="not in the future"):
        baseline_text(REPORT, [], reason="x", expires=TODAY, today=TODAY)


@pytest.mark.parametrize(
    "text", ["a: b", "[{rule: QUE-002}]", "[{rule: X, object: o, path: p, reason: '', expires: 2026-01-01}]", "["]
)
def test_a_wrong_file_is_an_error(tmp_path: Path, text: str) -> None:
    (tmp_path / "b.yaml").write_text(text)
    with pytest.raises(TrainyardError):
        read_baseline(tmp_path / "b.yaml")
