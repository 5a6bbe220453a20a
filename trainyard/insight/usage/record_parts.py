"""Record of usage as ConfigMaps: a head, and a bounded ring of segments for the queues and for each namespace.

A segment begins with the levels at its start, so each one can be read alone, and the oldest can be overwritten. Every
tenant reads the head and the part of the queues, so these name no namespace.
"""

from __future__ import annotations

import base64
import gzip
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Final

import orjson

from trainyard.insight.usage.account import Gap
from trainyard.insight.usage.levels import Level, Line, QueueLevel, QueueTenants, UsageGang

HEAD: Final = "trainyard-usage"
"""Name of the head; those of the segments start with it."""
LABEL: Final = "trainyard.dev/usage"
"""Label of every ConfigMap of the record, with the number of its segment."""
UNTIL: Final = "trainyard.dev/usage-until"
"""Label with the instant of the last write of a ConfigMap."""
MAX_SEGMENTS: Final = 512
"""Segments of all namespaces: of more, those that were written longest ago are deleted."""
SLOTS: Final = 16
"""Segments of the queues, and of each namespace; the next one overwrites the oldest."""
SEGMENT_BYTES: Final = 128 * 1024
"""Compressed size at which a segment is full, of about 25,000 lines; the API server accepts 1 MiB."""
MAX_GAPS: Final = 500
"""Gaps in the head; of more, the shortest are merged with their neighbors."""
_MOST_BYTES: Final = 700 * 1024
QUEUES: Final = ""
"""The part of the queues, among namespaces."""
FORMAT: Final = "1"
"""Format of the ConfigMaps; another one cannot be read."""
GAPS: Final = "gaps"
UNREADABLE: Final = (KeyError, IndexError, TypeError, ValueError, AttributeError, EOFError, OSError, zlib.error)
"""Errors of a ConfigMap that is not one of the record."""


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
        span = {"since": str(self.since), "until": str(self.until)}
        return {"format": FORMAT, **span, "gaps": json.dumps(self.gaps)}

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> Head:
        """Return the head in a ConfigMap."""
        data = _data(body)
        return cls(int(data["since"]), int(data["until"]), _gaps(data["gaps"]))


@dataclass(frozen=True)
class TenantGaps:
    """Times in which the part of one namespace could not be written.

    Parameters
    ----------
    gaps
        The times, in order; the newest `MAX_GAPS` are kept.
    behind
        Instant since which it is not written; None: it is.
    """

    gaps: tuple[Gap, ...] = ()
    behind: int | None = None

    def closed(self, now: int) -> TenantGaps:
        """Return the gaps of a namespace that is written again, and has lost what was not written."""
        if self.behind is None:
            return self
        return TenantGaps((*self.gaps, Gap(self.behind, now))[-MAX_GAPS:])

    def data(self) -> dict[str, str]:
        """Return the data of its ConfigMap."""
        behind = "" if self.behind is None else str(self.behind)
        return {"format": FORMAT, "gaps": json.dumps(self.gaps), "behind": behind}

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> TenantGaps:
        """Return the gaps in a ConfigMap."""
        data = _data(body)
        return cls(_gaps(data["gaps"]), int(data["behind"]) if data["behind"] else None)


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
    _ids: dict[UsageGang, int] = field(default_factory=dict)
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
        numbers = {name: str(value) for name, value in whole.items()}
        return {"format": FORMAT, "namespace": self.namespace, **numbers}

    def binary_data(self) -> dict[str, str]:
        """Return the binary data of its ConfigMap."""
        packed = gzip.compress(b"\n".join(self._text), compresslevel=6, mtime=0)
        self._size = len(packed)
        self._first_size = self._first_size or self._size
        return {"lines.gz": base64.b64encode(packed).decode()}

    @classmethod
    def begun(cls, body: Mapping[str, Any]) -> Segment:
        """Return the segment in a ConfigMap, without its lines."""
        data = _data(body)
        return cls(str(data["namespace"]), int(data["sequence"]), int(data["since"]))

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> Segment:
        """Return the segment in a ConfigMap, to be continued."""
        data, segment = body["data"], cls.begun(body)
        segment._text = unpacked(body).splitlines()
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


def names_of(namespace: str) -> list[str]:
    """Return the names of the segments of a namespace, and last of its gaps; of the queues, if it is empty."""
    scope = "queues" if namespace == QUEUES else f"namespace.{namespace}"
    own = [] if namespace == QUEUES else [gaps_name(namespace)]
    return [*(f"{HEAD}.{scope}.{slot}" for slot in range(SLOTS)), *own]


def gaps_name(namespace: str) -> str:
    """Return the name of the ConfigMap with the gaps of a namespace."""
    return f"{HEAD}.namespace.{namespace}.{GAPS}"


def number_of(metadata: Mapping[str, Any]) -> int:
    """Return the number of a segment by the label in its metadata; -1 without one."""
    number = str((metadata.get("labels") or {}).get(LABEL))
    return int(number) if number.isascii() and number.isdecimal() else -1


def _data(body: Mapping[str, Any]) -> Mapping[str, Any]:
    data: Mapping[str, Any] = body["data"]
    if data.get("format") != FORMAT:
        raise ValueError(f"format {data.get('format')!r}")
    return data


def _gaps(text: str) -> tuple[Gap, ...]:
    return tuple(Gap(int(start), int(end)) for start, end in json.loads(text))


def unpacked(body: Mapping[str, Any]) -> bytes:
    """Return the lines in the ConfigMap of a segment; of an unreadable one, one of `UNREADABLE` is raised."""
    return gzip.decompress(base64.b64decode(body["binaryData"]["lines.gz"]))


def _gangs(namespace: str, texts: Iterable[bytes]) -> Iterator[tuple[int, UsageGang]]:
    for text in texts:
        if text.startswith(b'["j"'):
            _, number, *names = orjson.loads(text)
            yield number, UsageGang(namespace, *names)
