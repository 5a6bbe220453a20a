"""Record of usage as it is read: the lines of its segments, and where it has gaps."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import groupby
from typing import Any, NamedTuple

import orjson

from trainyard.errors import TrainyardError
from trainyard.insight.usage.account import Account, Gap, Span, Usage
from trainyard.insight.usage.levels import Level, Line, QueueLevel, QueueTenants, TakenBack, UsageGang
from trainyard.insight.usage.record_parts import (
    FORMAT,
    GAPS,
    HEAD,
    QUEUES,
    UNREADABLE,
    Head,
    Segment,
    TenantGaps,
    number_of,
    unpacked,
)


class _Stored(NamedTuple):
    namespace: str
    sequence: int
    segment: Segment | None
    """None: it cannot be read."""
    body: Mapping[str, Any]


@dataclass
class Record:
    """A record that was read.

    A segment that cannot be read is a gap: from the start of the one before it to the start of the next one.

    Parameters
    ----------
    head
        The head.
    stored
        Segments in order, the queues first.
    tenant_gaps
        Gaps by namespace.
    """

    head: Head
    stored: tuple[_Stored, ...]
    tenant_gaps: Mapping[str, TenantGaps] = field(default_factory=dict)

    @cached_property
    def _contents(self) -> list[list[Line] | None]:
        """Lines of each stored segment; None: it cannot be read."""
        return [_readable(each) if each.segment is not None else None for each in self.stored]

    @cached_property
    def unreadable(self) -> frozenset[tuple[str, int]]:
        """Namespaces and numbers of the segments that cannot be read."""
        pairs = zip(self.stored, self._contents, strict=True)
        return frozenset((each.namespace, each.sequence) for each, lines in pairs if lines is None)

    @property
    def segments(self) -> list[tuple[Segment, Mapping[str, Any]]]:
        """Segments that can be read."""
        return [
            (each.segment, each.body)
            for each in self.stored
            if each.segment is not None and each[:2] not in self.unreadable
        ]

    def lines(self) -> Iterator[Line]:
        """Yield all lines; those of a namespace, and of the queues, in the order of time."""
        owners = defaultdict[str, set[str]](set)
        pairs = zip(self.stored, self._contents, strict=True)
        for namespace, group in groupby(pairs, key=lambda pair: pair[0].namespace):
            written, exclusive, gaps = _Written(namespace), dict[str, bool](), self.gaps((namespace,))
            for each, lines in group:
                if lines is None or each.segment is None:
                    continue
                yield from written.ended(each.segment.since, lines, gaps)
                for line in lines:
                    if isinstance(line, QueueTenants):
                        exclusive[line.queue] = bool(line.tenants)
                    else:
                        yield line
                written.add(lines)
            for queue in (queue for queue, own in exclusive.items() if own):
                owners[queue].add(namespace)
        for queue, tenants in owners.items():
            yield QueueTenants(queue, tuple(sorted(tenants)))

    def gaps(self, namespaces: Iterable[str] | None = None) -> list[Gap]:
        """Return the gaps of namespaces; by default, of all and of the head."""
        found = set(self.head.gaps) if namespaces is None else set[Gap]()
        wanted = set(namespaces) if namespaces is not None else None
        for namespace, own in self.tenant_gaps.items():
            if wanted is None or namespace in wanted:
                found.update(own.closed(self.head.until).gaps)
        for namespace, sequence in self.unreadable:
            if wanted is None or namespace in wanted:
                others = [each for each, _ in self.segments if each.namespace == namespace]
                before = [each.since for each in others if each.sequence < sequence]
                after = [each.since for each in others if each.sequence > sequence]
                found.add(Gap(max(before, default=self.head.since), min(after, default=self.head.until)))
        return sorted(found)

    def usage(self, span: Span) -> Usage:
        """Return the usage over a span; the record is complete from where no namespace has dropped a segment."""
        account = Account(Span(max(span.start, self.head.since), span.end))
        account.add(self.lines())
        recorded = Span(self._complete_since(), self.head.until)
        return replace(account.usage(self.head.until, recorded=recorded, gaps=self.gaps()), span=span)

    def _complete_since(self) -> int:
        first: dict[str, Segment] = {}
        for segment, _ in self.segments:
            first.setdefault(segment.namespace, segment)
        dropped = {each.namespace: each.sequence for each in reversed(self.stored)}
        return max([self.head.since, *(each.since for name, each in first.items() if dropped[name])])


class _Written:
    """The levels with which the last segment of a namespace ended."""

    def __init__(self, namespace: str) -> None:
        self._namespace = namespace
        self._levels: dict[tuple[UsageGang, str], Level] = {}
        self._last = 0

    def add(self, lines: Sequence[Line]) -> None:
        """Follow the lines of a segment."""
        for line in lines:
            if isinstance(line, Level):
                self._last = max(self._last, line.at)
                if line.asked or line.allocated:
                    self._levels[line.gang, line.resource] = line
                else:
                    self._levels.pop((line.gang, line.resource), None)

    def ended(self, since: int, lines: Sequence[Line], gaps: Iterable[Gap]) -> Iterator[Line]:
        """Yield the ends of the jobs that the next segment does not have: they have ended in a gap before it."""
        named = {(line.gang, line.resource) for line in lines if isinstance(line, Level)} if self._levels else set()
        started = [gap.start for gap in gaps if gap.end == since]
        at = max(self._last, min(started)) if started else since
        for gang, resource in [key for key in self._levels if key not in named]:
            del self._levels[gang, resource]
            yield Level(at, gang, resource, 0, 0, 0)


def newest(objects: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the names of the head and of the newest segment of each namespace, among the metadata of ConfigMaps."""
    found: dict[str, tuple[int, str]] = {}
    for metadata in (each["metadata"] for each in objects):
        scope, _, slot = metadata["name"].rpartition(".")
        each = (number_of(metadata), metadata["name"])
        key = scope if slot.isdecimal() else metadata["name"]
        found[key] = max(found.get(key, each), each)
    return [name for _, name in found.values()]


def read_record(bodies: Iterable[Mapping[str, Any]], begins: Head | None = None) -> Record | None:
    """Return the record in ConfigMaps; None without a head.

    Parameters
    ----------
    bodies
        The ConfigMaps.
    begins
        The head of a record that has lost its own.

    Raises
    ------
    TrainyardError
        The head is not readable.
    """
    head, stored, gaps = begins, list[_Stored](), dict[str, TenantGaps]()
    for body in bodies:
        name = body["metadata"]["name"]
        if name == HEAD:
            try:
                head = Head.of(body)
            except UNREADABLE as error:
                raise TrainyardError(
                    f"ConfigMap {name} is not the head of a record of usage in format {FORMAT}: {error}",
                    fix="delete it, and wait a minute: the record begins again",
                ) from error
        elif (place := place_of(name)) is not None:
            namespace, slot = place
            if slot == GAPS:
                with suppress(*UNREADABLE):
                    gaps[namespace] = TenantGaps.of(body)
            elif slot.isdecimal():
                stored.append(_stored(namespace, body))
    if head is None:
        return None
    return Record(head, tuple(sorted(stored, key=lambda each: each[:2])), gaps)


def place_of(name: str) -> tuple[str, str] | None:
    """Return the namespace and the last word of the name of a ConfigMap; None: it is none of a segment or of gaps."""
    first, *words = name.split(".")
    if first != HEAD or len(words) < 2:
        return None
    if words[0] == "queues":
        return QUEUES, words[1]
    return (words[1], words[2]) if words[0] == "namespace" and len(words) == 3 else None


def _stored(namespace: str, body: Mapping[str, Any]) -> _Stored:
    try:
        segment = Segment.begun(body)
        if segment.namespace == namespace:
            return _Stored(namespace, segment.sequence, segment, body)
    except UNREADABLE:
        pass
    return _Stored(namespace, number_of(body["metadata"]), None, body)


def _readable(stored: _Stored) -> list[Line] | None:
    try:
        return list(_lines(stored.namespace, unpacked(stored.body).splitlines()))
    except UNREADABLE:
        return None


def _lines(namespace: str, texts: Sequence[bytes]) -> Iterator[Line]:
    gangs: dict[int, UsageGang] = {}
    for kind, *row in orjson.loads(b"[" + b",".join(texts) + b"]"):
        if kind == "l":
            number, at, *rest = row
            yield Level(at, gangs[number], *rest)
        elif kind == "q":
            yield QueueLevel(*row)
        elif kind == "j":
            gangs[row[0]] = UsageGang(namespace, *row[1:])
        elif kind == "b":
            number, since, at, *rest = row
            yield TakenBack(since, at, gangs[number], *rest)
        else:
            yield QueueTenants(row[0], tuple(row[1]))
