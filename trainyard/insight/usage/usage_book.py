"""Book of usage: the newest document of each tenant and of the queues, and which of them have changed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from trainyard.insight.usage.account import Account, Span
from trainyard.insight.usage.levels import JobEvent, Level, Line, QueueLevel, QueueTenants, TakenBack
from trainyard.insight.usage.month_document import QueueLoan
from trainyard.insight.usage.month_usage import DAY, MonthUsage, month_of, new_document
from trainyard.insight.usage.record import QUEUES


class UsageBook:
    """Sorts the lines of a ledger into documents.

    Parameters
    ----------
    at
        Instant from which on lines follow.
    months
        The newest document of each tenant, and of the queues.
    """

    def __init__(self, at: int, months: Iterable[MonthUsage] = ()) -> None:
        self.months = {each.document.tenant: each for each in months}
        self.changed: dict[tuple[str, str], MonthUsage] = {}
        self._loans = _DayLoans(at)

    def add(self, lines: Iterable[Line | JobEvent]) -> None:
        """Add lines; those of a job, and of all queues, come in the order of time."""
        for line in lines:
            if isinstance(line, JobEvent) and line.gang.namespace not in self.months:
                continue  # It has never asked for a device.
            if isinstance(line, Level | TakenBack | JobEvent):
                self._month(line.gang.namespace, line.at).add(line)
            elif isinstance(line, QueueLevel):
                if line.at >= self._loans.end:
                    self._lend(line.at)
                self._loans.add(line)

    def own(self, at: int, owners: Iterable[QueueTenants]) -> None:
        """Replace the queues that only one tenant may use."""
        queues = defaultdict[str, list[str]](list)
        for queue, tenants in owners:
            for tenant in tenants:
                queues[tenant].append(queue)
        for tenant in {*queues, *self.months} - {QUEUES}:
            document = self.months[tenant].document if tenant in self.months else None
            if sorted(queues[tenant]) != (document.queues if document is not None else []):
                self._month(tenant, at).document.queues = sorted(queues[tenant])

    def advance(self, now: int) -> None:
        """Follow the time: what runs at the end of a month is continued in the next one."""
        for tenant, month in list(self.months.items()):
            if month.document.month < month_of(now) and month.levels():
                self._month(tenant, now)
        self._lend(now)

    def _month(self, tenant: str, at: int) -> MonthUsage:
        """Return the document of an instant, which changes."""
        own = self.months.get(tenant)
        if own is None:
            own = MonthUsage(new_document(tenant, month_of(at), at))
        while own.document.month < month_of(at):
            self.changed[tenant, own.document.month] = own
            own = own.following(month_of(own.span.end))
        self.months[tenant] = self.changed[tenant, own.document.month] = own
        return own

    def _lend(self, now: int) -> None:
        for day, amounts in self._loans.advance(now):
            month = self._month(QUEUES, day)
            number = (day - month.span.start) // DAY + 1
            rows = {(each.day, each.queue, each.resource): each for each in month.document.lent}
            for (queue, resource), amount in amounts.items():
                row = rows.get((number, queue, resource))
                if row is None:
                    row = QueueLoan(day=number, queue=queue, resource=resource, lent=0)
                    month.document.lent.append(row)
                row.lent += amount


class _DayLoans:
    """What queues lend, by day."""

    def __init__(self, at: int) -> None:
        self._levels: dict[tuple[str, str], QueueLevel] = {}
        self._written: defaultdict[tuple[str, str], int] = defaultdict(int)
        self._at: int
        self._span: Span
        self._account: Account
        self._begin(at)

    @property
    def end(self) -> int:
        """The end of the present day."""
        return self._span.end

    def add(self, line: QueueLevel) -> None:
        # What happened before the last call of `advance` is counted from then on: those sums are written.
        line = line._replace(at=max(line.at, self._at))
        self._levels[line.queue, line.resource] = line
        self._account.add([line])

    def advance(self, now: int) -> Iterable[tuple[int, dict[tuple[str, str], int]]]:
        """Yield an instant of each day up to now, and what was lent on it since the last call."""
        while True:
            end = self._at = max(self._at, min(now, self._span.end))
            lent = {key: int(amount) for key, amount in self._account.usage(end).lent.items()}
            more = {key: amount - self._written[key] for key, amount in lent.items() if amount > self._written[key]}
            self._written.update(lent)
            if more:
                yield self._span.start, more
            if now < self._span.end:
                return
            self._begin(self._span.end)

    def _begin(self, at: int) -> None:
        self._at = at
        self._span = Span(at, at - at % DAY + DAY)
        self._account = Account(self._span)
        self._written.clear()
        for key, level in self._levels.items():
            self._levels[key] = level._replace(at=at)
        self._account.add(self._levels.values())
