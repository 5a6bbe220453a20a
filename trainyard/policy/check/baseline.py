"""Baseline of known violations: suppressed one by one, with a reason and an expiry date."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from pydantic import Field, ValidationError

from trainyard.checks.finding import Finding, Severity
from trainyard.checks.report import Report
from trainyard.errors import TrainyardError
from trainyard.manifests.dump import dump
from trainyard.manifests.files import read_text
from trainyard.manifests.loader import load
from trainyard.settings.settings_model import SettingsModel

__all__ = ["BaselineEntry", "applied", "read_baseline", "written_baseline"]

_HEAD: Final = """\
# Known violations, silenced until their day. Written by: trainyard check --write-baseline
# An entry that has expired, or that nothing needs any more, is reported.
"""
_FIX: Final = "an entry has rule, object, path, reason and expires (a date such as 2027-01-31)"


class BaselineEntry(SettingsModel):
    """One known violation.

    Parameters
    ----------
    rule
        Id of the rule; None for what schema and rendering find.
    object, path
        As the report names them.
    reason
        Why it may stay for now.
    expires
        The first day on which it counts again.
    """

    rule: str | None
    object: str
    path: str
    reason: str = Field(min_length=1)
    expires: datetime.date

    def matches(self, result: Finding) -> bool:
        """Return whether it is about this finding."""
        return self.key == _key(result)

    @property
    def key(self) -> tuple[str | None, str, str]:
        """What an entry and a finding have in common."""
        return self.rule, self.object, self.path


def read_baseline(path: Path) -> list[BaselineEntry]:
    """Read a baseline file.

    Raises
    ------
    TrainyardError
        It cannot be read, or an entry is wrong.
    """
    if not path.exists():
        raise TrainyardError(f"{path} does not exist", fix="check the path, or make it with --write-baseline")
    document: Any = load(read_text(path), str(path), fix=_FIX)
    if not isinstance(document or [], list):
        raise TrainyardError(f"{path} does not hold a list", fix=_FIX)
    entries, problems = [], []
    for index, item in enumerate(document or []):
        try:
            entries.append(BaselineEntry.model_validate(item))
        except ValidationError as error:
            problems += [
                Finding(".".join([f"[{index}]", *map(str, found["loc"])]), found["msg"]) for found in error.errors()
            ]
    if problems:
        raise TrainyardError(f"{path} is wrong", fix=_FIX, findings=problems)
    return entries


def applied(
    report: Report, entries: Iterable[BaselineEntry], file: str, today: datetime.date, *, partial: bool = False
) -> Report:
    """Return the report without what the baseline silences, and with what is wrong with the baseline.

    Parameters
    ----------
    report
        The report.
    entries, file
        The baseline and its file.
    today
        The current day.
    partial
        Whether only some objects or rules were checked, so that an entry without finding may still be needed.
    """
    entries = list(entries)
    active = {entry.key for entry in entries if today < entry.expires}
    found = {_key(result) for result in report.findings}
    kept = [result for result in report.findings if _key(result) not in active]
    extra = _reported(entries, found, file, today, partial=partial)
    return report.with_findings([*kept, *extra], baseline=len(report.findings) - len(kept))


def written_baseline(
    report: Report, entries: Iterable[BaselineEntry], *, reason: str, expires: datetime.date, today: datetime.date
) -> str:
    """Return the text of a baseline that silences every error of a report.

    Parameters
    ----------
    report
        The report before any baseline.
    entries
        The baseline as it is: entries that still hold and are needed are kept as they are.
    reason, expires
        Of the new entries.
    today
        The current day.

    Raises
    ------
    TrainyardError
        The new entries would have expired already.
    """
    if expires <= today:
        raise TrainyardError(f"--expires {expires} is not after today", fix="give a later day")
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
            message, fix = f"baseline entry for {about} silences nothing any more", "remove it"
        elif entry.expires <= today:
            message = f"baseline entry for {about} expired on {entry.expires} ({entry.reason})"
            fix = "correct the object, or give the entry a later day"
        else:
            continue
        yield Finding(f"[{index}]", message, fix, severity=Severity.WARNING, object=entry.object, file=file)


def _key(result: Finding) -> tuple[str | None, str, str]:
    return result.rule, result.object, result.path
