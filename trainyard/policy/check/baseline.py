"""Baseline of known violations: suppressed one by one, with a reason and an expiry date."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from pydantic import Field, ValidationError

from trainyard.checks.finding import Finding, Severity
from trainyard.checks.report.report import Report
from trainyard.errors import TrainyardError
from trainyard.manifests.dump import dump
from trainyard.manifests.files import read_text
from trainyard.manifests.loader import load
from trainyard.settings.settings_model import SettingsModel

_HEAD: Final = """\
# Known violations, suppressed until they expire. Written by: trainyard check --write-baseline
# Expired and unused entries are reported.
"""
_FIX: Final = "an entry requires rule, object, path, reason and expires (a date such as 2027-01-31)"


class BaselineEntry(SettingsModel):
    """One known violation.

    Parameters
    ----------
    rule
        Id of the rule; None for findings of schema and rendering.
    object, path
        Object and path, as in the report.
    reason
        Why it is accepted.
    expires
        The first day on which it is reported again.
    """

    rule: str | None
    object: str
    path: str
    reason: str = Field(min_length=1)
    expires: datetime.date

    def matches(self, result: Finding) -> bool:
        """Return whether the entry matches a finding."""
        return self.key == _key(result)

    @property
    def key(self) -> tuple[str | None, str, str]:
        """Identity of a finding."""
        return self.rule, self.object, self.path


def read_baseline(path: Path) -> list[BaselineEntry]:
    """Read a baseline file.

    Raises
    ------
    TrainyardError
        It cannot be read, or an entry is invalid.
    """
    if not path.exists():
        raise TrainyardError(f"{path} does not exist", fix="check the path, or create it with --write-baseline")
    document: Any = load(read_text(path), str(path), fix=_FIX)
    if not isinstance(document or [], list):
        raise TrainyardError(f"{path} is not a list", fix=_FIX)
    entries, findings = [], []
    for index, item in enumerate(document or []):
        try:
            entries.append(BaselineEntry.model_validate(item))
        except ValidationError as error:
            findings += [
                Finding(".".join([f"[{index}]", *map(str, found["loc"])]), found["msg"]) for found in error.errors()
            ]
    if findings:
        raise TrainyardError(f"{path} is invalid", fix=_FIX, findings=findings)
    return entries


def apply_baseline(
    report: Report, entries: Iterable[BaselineEntry], file: str, today: datetime.date, *, partial: bool = False
) -> Report:
    """Return the report without suppressed findings, with findings about the baseline itself.

    Parameters
    ----------
    report
        The report.
    entries, file
        The baseline and its file.
    today
        The current day.
    partial
        Whether only some objects or rules were checked, so that unused entries are not reported.
    """
    entries = list(entries)
    active = {entry.key for entry in entries if today < entry.expires}
    found = {_key(result) for result in report.findings}
    kept = [result for result in report.findings if _key(result) not in active]
    extra = _reported(entries, found, file, today, partial=partial)
    return report.with_findings([*kept, *extra], baseline=len(report.findings) - len(kept))


def baseline_text(
    report: Report, entries: Iterable[BaselineEntry], *, reason: str, expires: datetime.date, today: datetime.date
) -> str:
    """Return the text of a baseline that suppresses every error of a report.

    Parameters
    ----------
    report
        The report before any baseline.
    entries
        The current baseline: entries that are used and have not expired are kept unchanged.
    reason, expires
        Reason and expiry date of new entries.
    today
        The current day.

    Raises
    ------
    TrainyardError
        The expiry date is not in the future.
    """
    if expires <= today:
        raise TrainyardError(f"--expires {expires} is not in the future", fix="use a later date")
    known = {entry.key: entry for entry in entries if today < entry.expires}
    found = {_key(result): result.severity for result in report.findings}
    keys = [key for key, severity in found.items() if severity is Severity.ERROR or key in known]
    made = [
        known.get(key) or BaselineEntry(rule=key[0], object=key[1], path=key[2], reason=reason, expires=expires)
        for key in keys
    ]
    made.sort(key=lambda entry: (entry.object, entry.path, entry.rule or ""))
    body = [entry.model_dump() for entry in made]
    return _HEAD + dump(body)


def _reported(
    entries: Iterable[BaselineEntry],
    found: set[tuple[str | None, str, str]],
    file: str,
    today: datetime.date,
    *,
    partial: bool,
) -> Iterator[Finding]:
    for index, entry in enumerate(entries):
        about = f"{entry.rule or 'a finding'} {entry.path}".strip()
        if entry.key not in found:
            if partial:
                continue
            message, fix = f"baseline entry for {about} is unused", "remove it"
        elif entry.expires <= today:
            message = f"baseline entry for {about} expired on {entry.expires} ({entry.reason})"
            fix = "correct the object, or set a later expiry date"
        else:
            continue
        yield Finding(f"[{index}]", message, fix, severity=Severity.WARNING, object=entry.object, file=file)


def _key(result: Finding) -> tuple[str | None, str, str]:
    return result.rule, result.object, result.path
