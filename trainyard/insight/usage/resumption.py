"""Resumption of a record: the lines that connect the levels that were written last with what exists now."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from trainyard.insight.usage.levels import Level, Line, QueueLevel, TakenBack, UsageGang

_Key = tuple[UsageGang, str] | tuple[str, str]


def resumed(written: Iterable[Line], lines: Iterable[Line], until: int) -> Iterator[Line]:
    """Yield the lines that continue a record.

    A job that is gone has held its devices until the record ended; what it had afterwards is unknown. What still exists
    is known by the times of its pods, also those without a writer.

    Parameters
    ----------
    written
        Lines of the record; the last one of each job is its level at the end.
    lines
        Lines of a ledger of the pods that exist now, from their creation on.
    until
        Last instant of the record, up to which it is complete.
    """
    last: dict[_Key, Level | QueueLevel] = {}
    for line in written:
        if isinstance(line, Level | QueueLevel):
            last[_key(line)] = line
    found: dict[_Key, Level | QueueLevel] = {}
    later = list[Line]()
    for line in lines:
        if isinstance(line, Level | QueueLevel) and line.at <= until:
            found[_key(line)] = line
        elif not isinstance(line, TakenBack) or line.at > until:
            later.append(line)
    for key, line in (last | found).items():
        before, now = (_values(each.get(key)) for each in (last, found))
        if before != now:
            yield _at(line, until, now)
    yield from later


def _key(line: Level | QueueLevel) -> _Key:
    return (line.gang, line.resource) if isinstance(line, Level) else (line.queue, line.resource)


def _values(line: Level | QueueLevel | None) -> tuple[int, int, int]:
    if line is None:
        return 0, 0, 0
    first, second, third = line[3:]
    return first, second, third


def _at(line: Level | QueueLevel, at: int, values: tuple[int, int, int]) -> Line:
    if isinstance(line, Level):
        return Level(at, line.gang, line.resource, *values)
    return QueueLevel(at, line.queue, line.resource, *values)
