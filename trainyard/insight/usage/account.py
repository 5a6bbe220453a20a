"""Account: sums of the lines of a record over a span, exact and linear in the number of lines."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final, NamedTuple

from trainyard.insight.usage.levels import Level, Line, QueueLevel, TakenBack, UsageGang

_HOUR: Final = 3600 * 1000
"""Units and seconds in one device-hour."""


class Span(NamedTuple):
    """A span of time, in seconds since 1970, without its end."""

    start: int
    end: int

    def overlap(self, start: int, end: int) -> int:
        """Return the seconds of another span inside this one."""
        return max(0, min(end, self.end) - max(start, self.start))


class Gap(NamedTuple):
    """A time in which nothing was recorded."""

    start: int
    end: int


@dataclass(slots=True)
class Sums:
    """Device-hours of a job.

    Parameters
    ----------
    asked, allocated, borrowed, taken_back
        Units times seconds.
    """

    asked: int = 0
    allocated: int = 0
    borrowed: int = 0
    taken_back: int = 0

    @property
    def waited(self) -> int:
        """Units times seconds that it asked for and did not have."""
        return self.asked - self.allocated

    def add(self, other: Sums) -> None:
        """Add the sums of another job."""
        self.asked += other.asked
        self.allocated += other.allocated
        self.borrowed += other.borrowed
        self.taken_back += other.taken_back

    def subtract(self, other: Sums) -> None:
        """Subtract a part of the sums."""
        self.add(Sums(-other.asked, -other.allocated, -other.borrowed, -other.taken_back))


@dataclass(frozen=True)
class Usage:
    """Usage over a span.

    Parameters
    ----------
    span
        The span that was asked for.
    jobs
        Sums by job and resource.
    lent
        Units times seconds that each queue lent, by queue and resource.
    tenants
        Tenants by queue.
    recorded
        Span of the record; None: there is none.
    gaps
        Times without a record inside the span.
    jobs_recorded
        Whether jobs are known one by one; otherwise their names are empty.
    """

    span: Span
    jobs: Mapping[tuple[UsageGang, str], Sums]
    lent: Mapping[tuple[str, str], Fraction]
    tenants: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    recorded: Span | None = None
    gaps: tuple[Gap, ...] = ()
    jobs_recorded: bool = True


def hours(unit_seconds: int | Fraction) -> Fraction:
    """Return device-hours of units times seconds."""
    return Fraction(unit_seconds) / _HOUR


class Account:
    """Sums over a span.

    Lines of one job, and the levels of all queues, must come in the order of time.

    Parameters
    ----------
    span
        The span; lines outside it only set levels.
    by
        Returns what jobs are summed by; by default each one by itself.
    """

    def __init__(self, span: Span, by: Callable[[UsageGang], UsageGang] = lambda gang: gang) -> None:
        self._span = span
        self._by = by
        self._jobs: defaultdict[tuple[UsageGang, str], Sums] = defaultdict(Sums)
        self._levels: dict[tuple[UsageGang, str], Level] = {}
        self._loans: defaultdict[str, _Loans] = defaultdict(lambda: _Loans(span))
        self._tenants: dict[str, tuple[str, ...]] = {}

    def add(self, lines: Iterable[Line]) -> None:
        """Add lines."""
        for line in lines:
            if isinstance(line, Level):
                self._add_level(line)
            elif isinstance(line, QueueLevel):
                self._loans[line.resource].change(line)
            elif isinstance(line, TakenBack):
                if seconds := self._span.overlap(line.since, line.at):
                    self._jobs[self._by(line.gang), line.resource].taken_back += seconds * line.amount
            else:
                self._tenants[line.queue] = line.tenants

    def usage(self, until: int | None = None, *, recorded: Span | None = None) -> Usage:
        """Return the sums up to an instant, by default the end of the span; more lines can be added afterwards.

        Parameters
        ----------
        until
            The last instant at which the present levels are known.
        recorded
            See `Usage`.
        """
        end = self._span.end if until is None else min(until, self._span.end)
        jobs = {
            key: Sums(each.asked, each.allocated, each.borrowed, each.taken_back) for key, each in self._jobs.items()
        }
        for (gang, resource), level in self._levels.items():
            self._count(jobs.setdefault((self._by(gang), resource), Sums()), level, end)
        lent = {
            (queue, resource): amount
            for resource, loans in self._loans.items()
            for queue, amount in loans.lent(end).items()
        }
        found = {key: each for key, each in jobs.items() if each.asked or each.allocated or each.taken_back}
        return Usage(self._span, found, lent, dict(self._tenants), recorded)

    def _add_level(self, line: Level) -> None:
        key = line.gang, line.resource
        before = self._levels.get(key)
        if before is not None:
            if line.at < before.at:  # of a writer whose clock is behind
                line = line._replace(at=before.at)
            self._count(self._jobs[self._by(line.gang), line.resource], before, line.at)
        if line.asked or line.allocated:
            self._levels[key] = line
        elif before is not None:
            del self._levels[key]

    def _count(self, sums: Sums, level: Level, end: int) -> None:
        if seconds := self._span.overlap(level.at, end):
            sums.asked += level.asked * seconds
            sums.allocated += level.allocated * seconds
            sums.borrowed += level.borrowed * seconds


class _Loans:
    """What each queue lends of one resource.

    What all queues borrow comes first from the shares that their owners leave unused, from each in proportion to what
    it leaves; more than that belongs to no queue. The sums are kept by denominator, so that they are exact and short.
    """

    def __init__(self, span: Span) -> None:
        self._span = span
        self._at = span.start
        self._levels: dict[str, tuple[int, int]] = {}
        self._unused: dict[str, int] = {}
        self._borrowed = self._left = 0
        self._sums: defaultdict[str, defaultdict[int, int]] = defaultdict(lambda: defaultdict(int))

    def change(self, line: QueueLevel) -> None:
        self._count(self._sums, line.at)
        self._at = max(self._at, line.at)
        borrowed, left = self._levels.get(line.queue, (0, 0))
        over = max(0, line.allocated - line.deserved)
        unused = max(0, line.deserved - max(line.allocated, line.guarantee))
        self._borrowed += over - borrowed
        self._left += unused - left
        self._levels[line.queue] = (over, unused)
        if unused:
            self._unused[line.queue] = unused
        else:
            self._unused.pop(line.queue, None)

    def lent(self, end: int) -> dict[str, Fraction]:
        """Return what each queue lent up to an instant, in units times seconds."""
        total = defaultdict[str, defaultdict[int, int]](lambda: defaultdict(int))
        for queue, parts in self._sums.items():
            total[queue].update(parts)
        self._count(total, end)
        return {
            queue: sum((Fraction(part, denominator) for denominator, part in parts.items()), Fraction(0))
            for queue, parts in total.items()
        }

    def _count(self, sums: defaultdict[str, defaultdict[int, int]], end: int) -> None:
        seconds = self._span.overlap(self._at, end)
        if not (seconds and self._borrowed and self._left):
            return
        if self._borrowed >= self._left:
            for queue, unused in self._unused.items():
                sums[queue][1] += unused * seconds
        else:
            for queue, unused in self._unused.items():
                sums[queue][self._left] += unused * self._borrowed * seconds
