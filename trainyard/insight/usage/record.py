"""Record of usage as ConfigMaps: a head, and a document a month for the queues and for each tenant.

The name of a document has the number of its month, so that a year later the same ConfigMap is written again: a tenant
has at most twelve, and a Role can name them. Every tenant reads the head and the documents of the queues, so these name
no tenant.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import pairwise
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError

from trainyard.errors import TrainyardError
from trainyard.insight.usage.account import Gap, Span, Sums, Usage
from trainyard.insight.usage.levels import UsageGang
from trainyard.insight.usage.month_document import (
    FORMAT,
    JOBS_KEY,
    OTHERS,
    USAGE_KEY,
    DayUsage,
    JobUsage,
    MonthDocument,
)
from trainyard.insight.usage.month_usage import DAY, MonthUsage, month_of, month_span

HEAD: Final = "trainyard-usage"
"""Name of the head; those of the documents start with it."""
LABEL: Final = "trainyard.dev/usage"
"""Label of every ConfigMap of the record, with the month of its document."""
MONTHS: Final = 12
"""Months of the record."""
MAX_GAPS: Final = 500
"""Gaps in the head; of more, the nearest are merged."""
FORMER_FORMATS: Final = frozenset({"1"})
"""Formats of former versions, whose record is removed."""
QUEUES: Final = ""
"""The queues, among tenants."""
UNREADABLE: Final = (KeyError, IndexError, TypeError, ValueError, AttributeError, ValidationError)
"""Errors of a ConfigMap that is not one of the record."""
_JOBS: Final = TypeAdapter(list[JobUsage])


@dataclass(frozen=True)
class Head:
    """What is known of the record as a whole.

    Parameters
    ----------
    since, until
        First and last instant of the record.
    gaps
        Times without a record, in order.
    """

    since: int
    until: int
    gaps: tuple[Gap, ...] = ()

    def resumed(self, now: int) -> Head:
        """Return the head of a writer that goes on at an instant; the time before it is a gap."""
        if now <= self.until:
            return self
        gaps = [*self.gaps, Gap(self.until, now)]
        if len(gaps) > MAX_GAPS:
            between = [after.start - before.end for before, after in pairwise(gaps)]
            index = between.index(min(between))
            gaps[index : index + 2] = [Gap(gaps[index].start, gaps[index + 1].end)]
        return replace(self, until=now, gaps=tuple(gaps))

    def without(self, start: int, end: int) -> Head:
        """Return the head of a record that has lost a time."""
        return replace(self, gaps=tuple(sorted({*self.gaps, Gap(start, end)})))

    def data(self) -> dict[str, str]:
        """Return the data of its ConfigMap."""
        span = {"since": str(self.since), "until": str(self.until)}
        return {"format": FORMAT, **span, "gaps": json.dumps(self.gaps)}

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> Head:
        """Return the head in a ConfigMap.

        Raises
        ------
        TrainyardError
            It is not readable.
        """
        try:
            data = body["data"]
            if data["format"] != FORMAT:
                raise ValueError(f"format {data['format']!r}")
            gaps = (Gap(int(start), int(end)) for start, end in json.loads(data["gaps"]))
            return cls(int(data["since"]), int(data["until"]), tuple(gaps))
        except UNREADABLE as error:
            raise TrainyardError(
                f"ConfigMap {HEAD} is not the head of a record of usage in format {FORMAT}: {error}",
                fix="delete it, and wait a minute: the record begins again",
            ) from error


@dataclass
class Record:
    """A record that was read.

    Parameters
    ----------
    head
        The head.
    months
        Documents by tenant and month, in order; those of the queues first.
    unreadable
        Tenants and months whose documents cannot be read.
    """

    head: Head
    months: Mapping[tuple[str, str], MonthUsage]
    unreadable: Sequence[tuple[str, str]] = field(default_factory=list)

    def usage(self, span: Span) -> Usage:
        """Return the usage of the whole days that a span touches, up to the end of the record."""
        days = self.days(span)
        jobs = defaultdict[tuple[UsageGang, str], Sums](Sums)
        lent = defaultdict[tuple[str, str], Fraction](Fraction)
        exclusive: dict[str, list[str]] = {}
        for (tenant, _), month in self.months.items():
            month.settle(max(self.head.until, month.document.until))
            exclusive[tenant] = month.document.queues
            for loan in month.document.lent:
                if _inside(month, loan.day, days):
                    lent[loan.queue, loan.resource] += loan.lent
            for gang, each in _jobs(month):
                if _inside(month, each.day, days):
                    jobs[gang, each.resource].add(each.sums())
        owners = defaultdict[str, list[str]](list)
        for tenant, queues in exclusive.items():
            for queue in queues:
                owners[queue].append(tenant)
        since = max(self.head.since, month_span(oldest_month(self.head.until)).start)
        found = {key: sums for key, sums in jobs.items() if sums.asked or sums.taken_back}
        tenants = {queue: tuple(sorted(names)) for queue, names in owners.items()}
        gaps = tuple(gap for gap in self.gaps() if days.overlap(gap.start, gap.end))
        return Usage(days, found, lent, tenants, Span(since, self.head.until), gaps)

    def days(self, span: Span) -> Span:
        """Return the whole days (UTC) of a span; the present day ends with the record."""
        start, end = span.start - span.start % DAY, -(-span.end // DAY) * DAY
        return Span(start, span.end if span.end >= self.head.until else min(end, self.head.until))

    def gaps(self) -> list[Gap]:
        """Return the gaps of the head, and the months of unreadable documents."""
        found = set(self.head.gaps)
        for _, month in self.unreadable:
            start, end = month_span(month)
            found.add(Gap(max(start, self.head.since), min(end, self.head.until)))
        return sorted(gap for gap in found if gap.start < gap.end)


def read_month(body: Mapping[str, Any]) -> MonthUsage | None:
    """Return the document in a ConfigMap, or None if it is not readable or not the one of its name."""
    try:
        data = body["data"]
        document = MonthDocument.model_validate_json(data[USAGE_KEY])
        jobs = _JOBS.validate_json(data.get(JOBS_KEY) or "[]")
        month = MonthUsage(document, jobs)
    except UNREADABLE:
        return None
    return month if name_of(document.tenant, document.month) == body["metadata"]["name"] else None


def read_record(bodies: Iterable[Mapping[str, Any]]) -> Record | None:
    """Return the record in ConfigMaps, or None without a head.

    Raises
    ------
    TrainyardError
        The head is not readable.
    """
    head, months, unreadable = None, dict[tuple[str, str], MonthUsage](), list[tuple[str, str]]()
    for body in bodies:
        if body["metadata"]["name"] == HEAD:
            head = Head.of(body)
        elif (month := read_month(body)) is not None:
            months[month.document.tenant, month.document.month] = month
        elif (place := place_of(body["metadata"])) is not None:
            unreadable.append(place)
    return Record(head, dict(sorted(months.items())), unreadable) if head is not None else None


def place_of(metadata: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return tenant and month of the ConfigMap of a document, or None for any other one."""
    month = str((metadata.get("labels") or {}).get(LABEL))
    scope, _, number = metadata["name"].rpartition(".")
    if len(month) != 7 or month[5:] != number:
        return None
    if scope == f"{HEAD}.queues":
        return QUEUES, month
    tenant = scope.removeprefix(f"{HEAD}.namespace.")
    return (tenant, month) if tenant != scope else None


def name_of(tenant: str, month: str) -> str:
    """Return the name of the ConfigMap of a document."""
    scope = "queues" if tenant == QUEUES else f"namespace.{tenant}"
    return f"{HEAD}.{scope}.{month[5:]}"


def names_of(tenant: str) -> list[str]:
    """Return the names of the documents of a tenant; of the queues, if it is empty."""
    return [name_of(tenant, f"2026-{number:02}") for number in range(1, 13)]


def oldest_month(now: int) -> str:
    """Return the first month that is kept."""
    return _earlier(month_of(now), MONTHS - 1)


def _earlier(month: str, count: int) -> str:
    for _ in range(count):
        month = month_of(month_span(month).start - 1)
    return month


def _inside(month: MonthUsage, day: int, days: Span) -> bool:
    at = month.span.start + (day - 1) * DAY
    return days.overlap(at, at + DAY) > 0


def _jobs(month: MonthUsage) -> Iterator[tuple[UsageGang, DayUsage]]:
    """Yield the days of each job, and what the totals have beyond these."""
    tenant = month.document.tenant
    named = defaultdict[tuple[str, str, str, int, str], Sums](Sums)
    for job in month.jobs:
        gang = job.gang(tenant)
        for each in job.days:
            named[*gang[3:], each.day, each.resource].add(each.sums())
            yield gang, each
    for total in month.totals():
        rest, known = total.sums(), named[total.queue, total.runtime, total.priority_class, total.day, total.resource]
        rest.subtract(known)
        other = UsageGang(tenant, "", OTHERS, total.queue, total.runtime, total.priority_class)
        row = DayUsage(day=total.day, resource=total.resource)
        row.add(rest)
        yield other, row
