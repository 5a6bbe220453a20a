"""Accumulator of the usage of one tenant in one month: from changes of levels to daily totals and jobs."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import chain
from typing import Final

from trainyard.api.constants import TRAIN_JOB
from trainyard.insight.usage.account import Span, Sums
from trainyard.insight.usage.levels import JobEvent, Level, TakenBack, UsageGang
from trainyard.insight.usage.month_document import (
    FORMAT,
    JOBS_KEY,
    OTHERS,
    USAGE_KEY,
    DayTotal,
    DayUsage,
    JobRestart,
    JobUsage,
    MonthDocument,
    RunningLevel,
)

DAY: Final = 86_400
MAX_BYTES: Final = 900 * 1024
"""Size of a document; the API server accepts 1 MiB."""
_MAX_RESTARTS: Final = 20
_TotalKey = tuple[int, str, str, str, str]


class MonthUsage:
    """Accumulator of one document.

    Parameters
    ----------
    document
        The document that it continues.
    jobs
        Its jobs.
    """

    def __init__(self, document: MonthDocument, jobs: Iterable[JobUsage] = ()) -> None:
        self.document = document
        self.jobs = list(jobs)
        self.span = month_span(document.month)
        self._totals = {_key(each): each for each in document.totals}
        self._levels: dict[UsageGang, dict[str, Level]] = {}
        for each in document.running:
            gang = each.gang(document.tenant)
            level = Level(document.until, gang, each.resource, each.asked, each.allocated, each.borrowed)
            self._levels.setdefault(gang, {})[each.resource] = level
        self._latest = {(each.kind, each.name): each for each in self.jobs}
        self._open = {each.gang(document.tenant): each for each in self.jobs if each.ended is None}

    def levels(self) -> list[Level]:
        """Return the levels that are not 0."""
        return [level for own in self._levels.values() for level in own.values()]

    def totals(self) -> Iterable[DayTotal]:
        """Return the daily totals."""
        return self._totals.values()

    def add(self, line: Level | TakenBack | JobEvent) -> None:
        """Add a line; those of a job come in the order of time."""
        if isinstance(line, Level):
            self._change(line)
        elif isinstance(line, TakenBack):
            # What ran in an earlier month counts on the first day of this one: that document no longer changes.
            earlier = max(0, min(line.at, self.span.start) - line.since)
            for day, seconds in chain([(1, earlier)], self._parts(line.since, line.at)):
                self._count(line.gang, line.resource, day, Sums(taken_back=seconds * line.amount))
            self._interrupt(line.gang, "evicted")
        else:
            self._note(line)

    def settle(self, now: int) -> None:
        """Count what runs up to an instant of this month."""
        now = min(now, self.span.end)
        for level in self.levels():
            self._elapse(level, now)
            self._levels[level.gang][level.resource] = level._replace(at=max(level.at, now))
        self.document.until = max(self.document.until, now)

    def following(self, month: str) -> MonthUsage:
        """Return the usage of a later month, which begins with what runs at the end of this one."""
        self.settle(self.span.end)
        start = month_span(month).start
        document = new_document(self.document.tenant, month, start)
        document.queues = self.document.queues
        jobs = (job.model_copy(deep=True, update={"days": []}) for job in self._open.values())
        following = MonthUsage(document, jobs)
        for level in self.levels():
            following._levels.setdefault(level.gang, {})[level.resource] = level._replace(at=start)
        self._levels.clear()
        return following

    def data(self, now: int) -> dict[str, str]:
        """Return the data of its ConfigMap, of a bounded size: of too many jobs, the oldest are dropped."""
        self.settle(now)
        self.document.running = [
            RunningLevel(
                **_names(each.gang),
                resource=each.resource,
                asked=each.asked,
                allocated=each.allocated,
                borrowed=each.borrowed,
            )
            for each in self.levels()
        ]
        texts = [each.model_dump_json(by_alias=True, exclude_defaults=True) for each in self.jobs]
        room = MAX_BYTES - sum(len(text.encode()) + 1 for text in texts) - len(self._document().encode())
        for index in sorted(range(len(texts)), key=lambda index: self.jobs[index].ended or 0) if room < 0 else ():
            if room < 0 and self.jobs[index].ended is not None:
                room += len(texts[index].encode()) + 1
                texts[index] = ""
                self.document.dropped += 1
        self.jobs = [job for job, text in zip(self.jobs, texts, strict=True) if text]
        self._latest = {(each.kind, each.name): each for each in self.jobs}
        if room < 0:
            self._merge_runtimes()
        return {USAGE_KEY: self._document(), JOBS_KEY: f"[{','.join(text for text in texts if text)}]"}

    def _document(self) -> str:
        self.document.totals = list(self._totals.values())
        return self.document.model_dump_json(by_alias=True, exclude_defaults=True)

    def _merge_runtimes(self) -> None:
        """Sum the totals, also of jobs, without the names of runtimes, of which a tenant may have many."""
        merged: dict[_TotalKey, DayTotal] = {}
        for each in self._totals.values():
            row = each.model_copy(update={"runtime": OTHERS})
            own = merged.setdefault(_key(row), row)
            if own is not row:
                own.add(row.sums())
        self._totals = merged
        for job in self.jobs:
            job.days = []

    def _change(self, line: Level) -> None:
        levels = self._levels.setdefault(line.gang, {})
        before, had = levels.get(line.resource), _allocated(levels)
        line = line._replace(at=max(line.at, self.span.start))
        if before is not None:
            line = line._replace(at=max(line.at, before.at))
            self._elapse(before, line.at)
        if line.asked or line.allocated:
            levels[line.resource] = line
        else:
            levels.pop(line.resource, None)
        self._follow(line, had, _allocated(levels))
        if not levels:
            del self._levels[line.gang]
            if (job := self._open.pop(line.gang, None)) is not None:
                job.ended = line.at

    def _follow(self, line: Level, had: int, has: int) -> None:
        """Follow the life of a job."""
        job = self._open.get(line.gang)
        if job is None:
            if not line.asked or line.gang.name == OTHERS:
                return
            job = self._open[line.gang] = self._begun(line)
        if has > had:
            if job.started is None:
                job.started = line.at
            elif job.interrupted is not None:
                job.restart_count += 1
                job.restarts = [*job.restarts, JobRestart(at=line.at, cause=job.interrupted)][-_MAX_RESTARTS:]
            job.interrupted = None
        elif had and not has:
            self._interrupt(line.gang, "")

    def _begun(self, line: Level) -> JobUsage:
        """Return the job that asks for devices again or for the first time.

        A TrainJob that has not ended has lost its pods: it is the same one. What else has the same name is another one.
        """
        gang = line.gang
        job = self._latest.get((gang.kind, gang.name))
        if job is not None and gang.kind == TRAIN_JOB and not job.outcome and job.gang(gang.namespace) == gang:
            job.ended = None
            return job
        job = self._latest[gang.kind, gang.name] = JobUsage(**_names(gang), created=line.at)
        self.jobs.append(job)
        return job

    def _interrupt(self, gang: UsageGang, cause: str) -> None:
        job = self._open.get(gang)
        if job is not None and job.started is not None:
            job.interrupted = job.interrupted or cause

    def _note(self, event: JobEvent) -> None:
        if not event.outcome:
            self._interrupt(event.gang, event.reason)
            return
        job = self._latest.get((event.gang.kind, event.gang.name))
        if job is not None:
            job.outcome, job.reason = event.outcome, event.reason

    def _elapse(self, level: Level, end: int) -> None:
        for day, seconds in self._parts(level.at, end):
            sums = Sums(level.asked * seconds, level.allocated * seconds, level.borrowed * seconds)
            self._count(level.gang, level.resource, day, sums)

    def _parts(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """Yield the days of this month in a span, with their seconds."""
        start, end = max(start, self.span.start), min(end, self.span.end)
        while start < end:
            midnight = min(end, start - start % DAY + DAY)
            yield (start - self.span.start) // DAY + 1, midnight - start
            start = midnight

    def _count(self, gang: UsageGang, resource: str, day: int, sums: Sums) -> None:
        if not any((sums.asked, sums.taken_back)):
            return
        key = day, resource, gang.queue, gang.runtime, gang.priority_class
        row = self._totals.get(key)
        if row is None:
            names = {"queue": gang.queue, "runtime": gang.runtime, "priority_class": gang.priority_class}
            row = self._totals[key] = DayTotal(day=day, resource=resource, **names)
        row.add(sums)
        job = self._open.get(gang)
        if job is not None:
            # The days of a job come in order, so the row is among the last ones.
            own = next((each for each in reversed(job.days) if (each.day, each.resource) == (day, resource)), None)
            if own is None:
                own = DayUsage(day=day, resource=resource)
                job.days.append(own)
            own.add(sums)


def new_document(tenant: str, month: str, until: int) -> MonthDocument:
    """Return an empty document."""
    return MonthDocument(format=FORMAT, tenant=tenant, month=month, until=until)


@lru_cache(maxsize=256)
def month_span(month: str) -> Span:
    """Return the first instant of a month, such as 2026-10, and that of the next one."""
    year, number = map(int, month.split("-"))
    following = (year + number // 12, number % 12 + 1)
    start, end = (datetime.datetime(*each, 1, tzinfo=datetime.UTC).timestamp() for each in ((year, number), following))
    return Span(int(start), int(end))


def month_of(at: int) -> str:
    """Return the month of an instant."""
    return datetime.datetime.fromtimestamp(at, datetime.UTC).strftime("%Y-%m")


def _allocated(levels: dict[str, Level]) -> int:
    return sum(level.allocated for level in levels.values())


def _names(gang: UsageGang) -> dict[str, str]:
    return {name: value for name, value in gang._asdict().items() if name != "namespace"}


def _key(row: DayTotal) -> _TotalKey:
    return row.day, row.resource, row.queue, row.runtime, row.priority_class
