"""Table of usage: rows by tenant, queue, job or runtime, as text, CSV and JSON."""

from __future__ import annotations

import csv
import datetime
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final

from trainyard.checks.printable_text import printable
from trainyard.insight.usage.account import Span, Sums, Usage, hours
from trainyard.insight.usage.levels import UsageGang

SHARED: Final = "(shared queues)"
"""Tenant of what a queue lends that several tenants may use, or none."""
_MEASURES: Final = ("asked", "allocated", "borrowed", "lent", "taken_back", "waited")
_TITLES: Final = {"taken_back": "taken back"}


class By(StrEnum):
    """Things that usage is summed by."""

    TENANT = "tenant"
    QUEUE = "queue"
    JOB = "job"
    RUNTIME = "runtime"


_COLUMNS: Final[Mapping[By, tuple[str, ...]]] = {
    By.TENANT: ("tenant",),
    By.QUEUE: ("queue",),
    By.JOB: ("tenant", "job", "queue", "runtime"),
    By.RUNTIME: ("runtime",),
}


@dataclass
class UsageRow:
    """Device-hours of one resource.

    Parameters
    ----------
    names
        By column; empty of the total.
    resource
        The resource.
    sums
        Units times seconds of its jobs.
    lent
        Units times seconds; None where it has no meaning, because only queues lend.
    """

    names: Mapping[str, str]
    resource: str
    sums: Sums = field(default_factory=Sums)
    lent: Fraction | None = None

    @property
    def device_hours(self) -> dict[str, Fraction | None]:
        """Device-hours by measure; None where a measure has no meaning."""
        return {
            name: None if amount is None else hours(amount)
            for name, amount in zip(_MEASURES, self.amounts, strict=True)
        }

    @property
    def amounts(self) -> tuple[int | Fraction | None, ...]:
        """Units times seconds, in the order of `device_hours`."""
        sums = self.sums
        return sums.asked, sums.allocated, sums.borrowed, self.lent, sums.taken_back, sums.waited


def rows(usage: Usage, by: By, namespace: str | None = None) -> list[UsageRow]:
    """Return the rows, the largest first, and the total of each resource.

    Parameters
    ----------
    usage
        The usage.
    by
        What it is summed by.
    namespace
        Only of this tenant, and what queues lend that only this tenant may use; None: all.
    """
    found: dict[tuple[str, ...], UsageRow] = {}
    totals: dict[str, UsageRow] = {}
    lends = by in (By.TENANT, By.QUEUE)

    def row(names: Mapping[str, str], resource: str) -> tuple[UsageRow, UsageRow]:
        zero = Fraction(0) if lends else None
        own = found.setdefault((*names.values(), resource), UsageRow(names, resource, lent=zero))
        return own, totals.setdefault(resource, UsageRow({}, resource, lent=zero))

    for (gang, resource), sums in usage.jobs.items():
        if namespace in (None, gang.namespace):
            for each in row(_names(gang, by), resource):
                each.sums.add(sums)
    for (queue, resource), amount in usage.lent.items() if lends else ():
        tenants = usage.tenants.get(queue, ())
        if amount and (namespace is None or tenants == (namespace,)):
            tenant = tenants[0] if len(tenants) == 1 else SHARED
            for each in row({by.value: queue if by is By.QUEUE else tenant}, resource):
                each.lent = (each.lent or Fraction(0)) + amount
    ordered = sorted(found.items(), key=lambda pair: (pair[1].resource, -pair[1].sums.allocated, pair[0]))
    return [each for _, each in ordered] + [totals[name] for name in sorted(totals)]


def as_text(usage: Usage, by: By, found: Sequence[UsageRow]) -> str:
    """Return a table with a heading."""
    heading = f"Device-hours from {timestamp(usage.span.start)} to {timestamp(usage.span.end)}"
    if not found:
        return f"{heading}\nNo job asked for a device."
    header = [*_COLUMNS[by], "resource", *(_TITLES.get(name, name) for name in _MEASURES)]
    table = [header]
    for each in found:
        names = [each.names.get(name, "") or "-" for name in _COLUMNS[by]]
        if not each.names:
            names = ["total", *([""] * (len(names) - 1))]
        amounts = ["-" if amount is None else _rounded(amount) for amount in each.amounts]
        table.append([*map(printable, (*names, each.resource)), *amounts])
    widths = [max(len(line[index]) for line in table) for index in range(len(header))]
    left = len(_COLUMNS[by]) + 1
    lines = (
        "  ".join(text.ljust(width) if index < left else text.rjust(width) for index, (text, width) in enumerate(cells))
        for cells in (list(zip(line, widths, strict=True)) for line in table)
    )
    return "\n".join([heading, *(line.rstrip() for line in lines)])


def as_csv(by: By, found: Sequence[UsageRow]) -> str:
    """Return CSV without totals; a value that a spreadsheet would evaluate starts with an apostrophe."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow([*_COLUMNS[by], "resource", *_MEASURES])
    for each in found:
        if each.names:
            names = [_inert(each.names.get(name, "")) for name in _COLUMNS[by]]
            amounts = ["" if amount is None else _rounded(amount) for amount in each.amounts]
            writer.writerow([*names, _inert(each.resource), *amounts])
    return stream.getvalue()


def as_json(usage: Usage, by: By, found: Sequence[UsageRow]) -> dict[str, Any]:
    """Return JSON values; amounts are device-hours with six digits."""
    return {
        "span": _span(usage.span),
        "recorded": _span(usage.recorded) if usage.recorded is not None else None,
        "gaps": [_span(Span(*gap)) for gap in usage.gaps],
        "by": by.value,
        "rows": [_json_row(each) for each in found if each.names],
        "totals": [_json_row(each) for each in found if not each.names],
    }


def timestamp(at: int) -> str:
    """Return an instant in the API's notation."""
    return datetime.datetime.fromtimestamp(at, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _names(gang: UsageGang, by: By) -> dict[str, str]:
    values = {
        "tenant": gang.namespace,
        "job": f"{gang.kind.lower()}/{gang.name}" if gang.kind else gang.name,
        "queue": gang.queue,
        "runtime": gang.runtime,
    }
    return {name: values[name] for name in _COLUMNS[by]}


def _json_row(row: UsageRow) -> dict[str, Any]:
    amounts = {name: None if amount is None else float(round(amount, 6)) for name, amount in row.device_hours.items()}
    amounts["takenBack"] = amounts.pop("taken_back")
    return {**row.names, "resource": row.resource, **amounts}


def _span(span: Span) -> dict[str, str]:
    return {"from": timestamp(span.start), "to": timestamp(span.end)}


@lru_cache(maxsize=65536)
def _rounded(unit_seconds: int | Fraction) -> str:
    """Return device-hours with at most three digits; cached, because exact fractions are slow and jobs are alike."""
    thousandths = round(hours(unit_seconds) * 1000)
    whole, rest = divmod(abs(thousandths), 1000)
    return f"{'-' * (thousandths < 0)}{whole}.{rest:03}".rstrip("0").rstrip(".")


def _inert(text: str) -> str:
    text = printable(text)
    return f"'{text}" if text.lstrip().startswith(("=", "+", "-", "@")) else text
