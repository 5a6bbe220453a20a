"""Queue tree with bars: guarantee, deserved, allocated, lent and borrowed, and the gangs that wait."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from trainyard.cluster_state.observed import Kind
from trainyard.insight.console.views.platform_view import UNKNOWN, JobRow, PlatformView, Reason
from trainyard.scheduling.queues.amounts import step, text, units
from trainyard.scheduling.queues.usage import QueueUsage, drawn_resources, over_share

WIDTH: Final = 1000
"""Width of the longest bar: the limit of root."""
_BY_SCHEDULER: Final = "Queue.status.allocated"
_SHOWN: Final = 50
"""Waiting gangs listed of each queue."""


@dataclass(frozen=True)
class BarSegment:
    """Part of a bar: its style and place."""

    style: str
    left: int
    width: int


@dataclass(frozen=True)
class Waiting:
    """A waiting gang of a queue: its job, its name, and why it waits."""

    name: str
    row: JobRow | None
    reason: Reason | None
    request: str


@dataclass(frozen=True)
class QueueBar:
    """One queue.

    Parameters
    ----------
    usage
        Its usage.
    resource
        The resource that is drawn.
    guarantee, deserved, used, lent, borrowed, limit
        Amounts as text, `used` with its remark; empty: unset or nothing; `UNKNOWN`: not everything that they depend on
        may be read.
    segments
        Parts of its bar.
    waiting
        Its waiting gangs, in the scheduler's order; those of the queues below are listed there.
    more
        Number of waiting gangs that are not listed.
    """

    usage: QueueUsage
    resource: str
    guarantee: str
    deserved: str
    used: str
    lent: str
    borrowed: str
    limit: str
    segments: tuple[BarSegment, ...]
    waiting: tuple[Waiting, ...]
    more: int

    @property
    def description(self) -> str:
        """The bar in words."""
        parts = [f"{self.used} allocated"]
        for name in ("deserved", "guarantee", "lent", "borrowed"):
            if value := getattr(self, name):
                parts.append(f"{value} {name}")
        return f"{self.usage.queue}: {', '.join(parts)} {self.resource}"


def queue_resources(view: PlatformView) -> list[str]:
    """Return the resources that can be drawn."""
    return drawn_resources(list(view.cluster.shares.usage.values()))


def queue_bars(view: PlatformView, resource: str) -> list[QueueBar]:
    """Return the queues with their bars for a resource, parents before children."""
    shares = view.cluster.shares
    found = list(shares.usage.values())
    whole = max((max(each.limit.get(resource, 0), each.used.get(resource, 0)) for each in found), default=0) or 1
    lent = lent_amounts(found, resource)
    counted = not view.unread_of(Kind.POD_GROUP, Kind.POD)
    known = {each.queue: counted or each.source == _BY_SCHEDULER for each in found}
    bars = []
    for each in found:
        jobs = shares.waiting.get(each.queue, [])
        waiting = []
        for job in jobs[:_SHOWN]:
            row = view.gang_rows.get(job.name)
            needed = text(resource, job.request[resource]) if resource in job.request else ""
            waiting.append(Waiting(job.name, row, view.reason(row) if row else None, needed))

        def amount(value: int | None) -> str:
            return text(resource, value) if value else ""

        limit = text(resource, each.limit[resource]) if resource in each.limit else ""
        bars.append(
            QueueBar(
                usage=each,
                resource=resource,
                guarantee=amount(each.guarantee.get(resource)),
                deserved=text(resource, each.deserved[resource]) if resource in each.deserved else "",
                used=f"{amount(each.used.get(resource)) or '0'}{each.remark}" if known[each.queue] else UNKNOWN,
                lent=amount(lent.get(each.queue)) if all(known.values()) else UNKNOWN,
                borrowed=amount(borrowed(each, resource)) if known[each.queue] else UNKNOWN,
                limit=limit or ("" if view.index.knows(Kind.NODE) else UNKNOWN),
                segments=_segments(each, resource, whole, lent.get(each.queue, 0)) if all(known.values()) else (),
                waiting=tuple(waiting),
                more=max(0, len(jobs) - _SHOWN),
            )
        )
    return bars


def borrowed(each: QueueUsage, resource: str) -> int:
    """Return the units above its share, as the scheduler takes them back."""
    return max(0, over_share(each.used, each.deserved, each.guarantee).get(resource, 0)) if each.depth else 0


def lent_amounts(found: Sequence[QueueUsage], resource: str) -> Mapping[str, int]:
    """Return the units that siblings use of each queue's free share.

    What the queues below one parent borrow is divided among the free shares of their siblings in proportion, and is at
    most the sum of these, in whole devices: the scheduler does not record whose share a pod uses.
    """
    siblings: defaultdict[str, list[QueueUsage]] = defaultdict(list)
    for each in found:
        if each.depth:
            siblings[each.parent].append(each)
    whole = units({resource: "1"}).get(resource, 1) if step(resource) == 1 else 1
    lent: dict[str, int] = {}
    for queues in siblings.values():
        taken = sum(borrowed(each, resource) for each in queues)
        idle = {each.queue: max(0, each.deserved.get(resource, 0) - each.used.get(resource, 0)) for each in queues}
        free = sum(idle.values())
        left = min(taken, free)
        for name, amount in idle.items():
            # Rounded up to whole devices; the last one has what is left.
            part = min(left, amount, -(-left * amount // (free * whole)) * whole) if free else 0
            lent[name] = part
            left, free = left - part, free - amount
    return lent


def _segments(each: QueueUsage, resource: str, whole: int, lent: int) -> tuple[BarSegment, ...]:
    """Return the parts of a bar; the styles are those of the legend."""
    deserved, used = each.deserved.get(resource, 0), each.used.get(resource, 0)
    own = used - borrowed(each, resource)
    edges = (
        ("allocated", own),
        ("lent", own + lent),
        ("guaranteed", max(own + lent, min(each.guarantee.get(resource, 0), deserved))),
        ("deserved", max(own + lent, deserved)),
        ("borrowed", max(own + lent, deserved, used)),
        ("limit", max(each.limit.get(resource, 0), deserved, used)),
    )
    segments, left = [], 0
    for style, edge in edges:
        right = min(WIDTH, round(edge / whole * WIDTH))
        if right > left:
            segments.append(BarSegment(style, left, right - left))
            left = right
    return tuple(segments)
