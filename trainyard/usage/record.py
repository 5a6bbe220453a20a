"""Record of usage as ConfigMaps: a head, and a bounded ring of segments for the queues and for each namespace.

A segment begins with the levels at its start, so each one can be read alone, and the oldest can be overwritten.
"""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Final

import orjson

from trainyard.errors import TrainyardError
from trainyard.usage.account import Account, Gap, Span, Usage
from trainyard.usage.levels import Gang, Level, Line, QueueLevel, QueueTenants, TakenBack

__all__ = [
    "HEAD",
    "LABEL",
    "MAX_GAPS",
    "SEGMENT_BYTES",
    "SLOTS",
    "Head",
    "Record",
    "Segment",
    "names_of",
    "newest",
    "read_record",
]

HEAD: Final = "trainyard-usage"
"""Name of the head; those of the segments start with it."""
LABEL: Final = "trainyard.dev/usage"
"""Label of every ConfigMap of the record, with the number of its segment."""
SLOTS: Final = 16
"""Segments of the queues, and of each namespace; the next one overwrites the oldest."""
SEGMENT_BYTES: Final = 128 * 1024
"""Compressed size at which a segment is full, of about 25,000 lines; the API server accepts 1 MiB."""
MAX_GAPS: Final = 500
"""Gaps in the head; of more, the shortest are merged with their neighbors."""
_MOST_BYTES: Final = 700 * 1024
_QUEUES: Final = ""


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

    def data(self) -> dict[str, str]:
        """Return the data of its ConfigMap."""
        return {"since": str(self.since), "until": str(self.until), "gaps": json.dumps(self.gaps)}

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> Head:
        """Return the head in a ConfigMap."""
        data = body["data"]
        gaps = tuple(Gap(int(start), int(end)) for start, end in json.loads(data["gaps"]))
        return cls(int(data["since"]), int(data["until"]), gaps)


@dataclass
class Segment:
    """Consecutive lines of a namespace, or of the queues.

    Parameters
    ----------
    namespace
        The namespace; empty: the queues.
    sequence
        Number of the segment.
    since
        Its first instant.
    """

    namespace: str
    sequence: int
    since: int
    _text: list[bytes] = field(default_factory=list)
    _ids: dict[Gang, int] = field(default_factory=dict)
    _size: int = 0
    _first_size: int = 0

    @property
    def full(self) -> bool:
        """Whether it was full when it was last packed; one that began with many levels has room for as much again."""
        return self._size >= min(max(SEGMENT_BYTES, 2 * self._first_size), _MOST_BYTES)

    @property
    def name(self) -> str:
        """Name of its ConfigMap."""
        return names_of(self.namespace)[self.sequence % SLOTS]

    def append(self, lines: Iterable[Line]) -> None:
        """Add lines."""
        for line in lines:
            for row in self._rows(line):
                self._text.append(orjson.dumps(row))

    def data(self) -> dict[str, str]:
        """Return the data of its ConfigMap."""
        whole = {"sequence": self.sequence, "since": self.since, "begins": self._first_size}
        return {"namespace": self.namespace, **{name: str(value) for name, value in whole.items()}}

    def binary_data(self) -> dict[str, str]:
        """Return the binary data of its ConfigMap."""
        packed = gzip.compress(b"\n".join(self._text), compresslevel=6, mtime=0)
        self._size = len(packed)
        self._first_size = self._first_size or self._size
        return {"lines.gz": base64.b64encode(packed).decode()}

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> Segment:
        """Return the segment in a ConfigMap, to be continued."""
        data = body["data"]
        segment = cls(data["namespace"], int(data["sequence"]), int(data["since"]))
        segment._text = _unpacked(body).splitlines()
        segment._size = len(body["binaryData"]["lines.gz"]) * 3 // 4
        segment._first_size = int(data.get("begins") or segment._size)
        segment._ids = {gang: number for number, gang in _gangs(segment.namespace, segment._text)}
        return segment

    def _rows(self, line: Line) -> Iterator[Sequence[Any]]:
        if isinstance(line, QueueLevel):
            yield ["q", *line]
        elif isinstance(line, QueueTenants):
            yield ["t", *line]
        else:
            gang = line.gang
            if gang not in self._ids:
                self._ids[gang] = len(self._ids)
                yield ["j", self._ids[gang], *gang[1:]]
            number = self._ids[gang]
            if isinstance(line, Level):
                yield ["l", number, line.at, line.resource, line.asked, line.allocated, line.borrowed]
            else:
                yield ["b", number, line.since, line.at, line.resource, line.amount]


@dataclass(frozen=True)
class Record:
    """A record that was read.

    Parameters
    ----------
    head
        The head.
    segments
        Segments in order, the queues first.
    """

    head: Head
    segments: tuple[tuple[Segment, Mapping[str, Any]], ...]

    def lines(self) -> Iterator[Line]:
        """Yield all lines; those of a namespace, and of the queues, in the order of time."""
        for segment, body in self.segments:
            yield from _lines(segment.namespace, _unpacked(body).splitlines())

    def usage(self, span: Span) -> Usage:
        """Return the usage over a span; the record is complete from where no namespace has dropped a segment."""
        account = Account(Span(max(span.start, self.head.since), span.end))
        account.add(self.lines())
        recorded = Span(self._complete_since(), self.head.until)
        return replace(account.usage(self.head.until, recorded=recorded, gaps=self.head.gaps), span=span)

    def _complete_since(self) -> int:
        first: dict[str, Segment] = {}
        for segment, _ in self.segments:
            first.setdefault(segment.namespace, segment)
        return max([self.head.since, *(each.since for each in first.values() if each.sequence)])


def names_of(namespace: str) -> list[str]:
    """Return the names of the segments of a namespace; of the queues, if it is empty."""
    scope = "queues" if namespace == _QUEUES else f"namespace.{namespace}"
    return [f"{HEAD}.{scope}.{slot}" for slot in range(SLOTS)]


def newest(objects: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the names of the head and of the newest segment of each namespace, among the metadata of ConfigMaps."""
    found: dict[str, tuple[int, str]] = {}
    for metadata in (each["metadata"] for each in objects):
        scope, _, slot = metadata["name"].rpartition(".")
        number = str(metadata["labels"].get(LABEL))
        each = (int(number) if number.isdecimal() else -1, metadata["name"])
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
        A ConfigMap is not readable.
    """
    head, segments = begins, list[tuple[Segment, Mapping[str, Any]]]()
    for body in bodies:
        name = body["metadata"]["name"]
        try:
            if name == HEAD:
                head = Head.of(body)
            else:
                data = body["data"]
                segments.append((Segment(data["namespace"], int(data["sequence"]), int(data["since"])), body))
        except (KeyError, TypeError, ValueError) as error:
            raise TrainyardError(
                f"ConfigMap {name} is not a part of the record of usage: {error}", fix="delete it, and wait a minute"
            ) from error
    if head is None:
        return None
    return Record(head, tuple(sorted(segments, key=lambda pair: (pair[0].namespace, pair[0].sequence))))


def _unpacked(body: Mapping[str, Any]) -> bytes:
    name = body["metadata"]["name"]
    try:
        return gzip.decompress(base64.b64decode(body["binaryData"]["lines.gz"]))
    except (KeyError, ValueError, EOFError, OSError) as error:
        raise TrainyardError(
            f"ConfigMap {name} is not a part of the record of usage: {error}", fix="delete it, and wait a minute"
        ) from error


def _gangs(namespace: str, texts: Iterable[bytes]) -> Iterator[tuple[int, Gang]]:
    for text in texts:
        if text.startswith(b'["j"'):
            _, number, *names = orjson.loads(text)
            yield number, Gang(namespace, *names)


def _lines(namespace: str, texts: Sequence[bytes]) -> Iterator[Line]:
    gangs: dict[int, Gang] = {}
    for kind, *row in orjson.loads(b"[" + b",".join(texts) + b"]"):
        if kind == "l":
            number, at, *rest = row
            yield Level(at, gangs[number], *rest)
        elif kind == "q":
            yield QueueLevel(*row)
        elif kind == "j":
            gangs[row[0]] = Gang(namespace, *row[1:])
        elif kind == "b":
            number, since, at, *rest = row
            yield TakenBack(since, at, gangs[number], *rest)
        else:
            yield QueueTenants(row[0], tuple(row[1]))
