"""Ledger: turns changes of pods and shares, in the order of time, into the lines of the record."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from trainyard.insight.usage.frontier import Frontier
from trainyard.insight.usage.levels import Holding, Level, Line, QueueLevel, Share, TakenBack, UsageGang


@dataclass
class _Part:
    holding: Holding
    since: int


class Ledger:
    """What every job asks for, has and borrows now; each change takes time independent of the number of jobs.

    Time never goes back: an earlier instant counts as the latest one so far. Of several changes at one instant, only
    the last level is a line.

    Parameters
    ----------
    start
        First instant, in seconds.
    """

    def __init__(self, start: int = 0) -> None:
        self._now = start
        self._parts: dict[str, _Part] = {}
        self._levels: dict[tuple[UsageGang, str], list[int]] = {}
        self._shares: dict[tuple[str, str], Frontier] = {}
        self._guarantees: dict[tuple[str, str], int] = {}
        self._changed: dict[tuple[UsageGang, str], None] = {}
        self._changed_shares: dict[tuple[str, str], None] = {}
        self._lines: list[Line] = []

    def hold(self, at: int, part: str, holding: Holding | None, *, taken_back: bool = False) -> None:
        """Replace what a part of a job holds.

        Parameters
        ----------
        at
            The instant.
        part
            Identity of the part.
        holding
            What it holds from now on; None: nothing.
        taken_back
            Whether the scheduler took back what it had.
        """
        before = self._parts.get(part)
        if (before.holding if before is not None else None) == holding:
            return
        self.advance(at)
        since = self._now
        if before is not None:
            had = before.holding
            if taken_back and had.allocated:
                self._lines += [
                    TakenBack(before.since, self._now, had.gang, name, amount) for name, amount in had.amounts.items()
                ]
            if holding is not None and (had.gang, had.allocated) == (holding.gang, holding.allocated):
                since = before.since
            self._add(had, -1)
            del self._parts[part]
        if holding is not None:
            self._add(holding, 1)
            self._parts[part] = _Part(holding, since)

    def share(self, at: int, queue: str, share: Share) -> None:
        """Replace the share of a queue; a resource that is missing has a share of 0."""
        named = {resource for name, resource in self._shares if name == queue} | {*share.deserved, *share.guarantee}
        for resource in sorted(named):
            key, before = (queue, resource), self._shares.get((queue, resource))
            deserved, guarantee = share.deserved.get(resource, 0), share.guarantee.get(resource, 0)
            if (deserved, guarantee) != (before.deserved if before is not None else 0, self._guarantees.get(key, 0)):
                self.advance(at)
                frontier = self._share(*key)
                self._guarantees[key] = guarantee
                self._changed_shares[key] = None
                self._changed.update(dict.fromkeys((gang, resource) for gang in frontier.deserve(deserved)))

    def drain(self) -> list[Line]:
        """Return the lines since the last call."""
        self._settle()
        lines, self._lines = self._lines, []
        return lines

    def advance(self, at: int) -> None:
        """Let an instant be the earliest of all further changes."""
        if at > self._now:
            self._settle()
            self._now = at

    def levels(self) -> list[Line]:
        """Return the present levels that are not 0, as lines of the present instant."""
        self._settle()
        found: list[Line] = [
            self._level(gang, resource) for (gang, resource), level in self._levels.items() if any(level)
        ]
        return found + [
            self._queue_level(queue, resource)
            for (queue, resource), share in self._shares.items()
            if share.deserved or share.total
        ]

    def _settle(self) -> None:
        """Write the lines of the present instant."""
        for gang, resource in self._changed:
            self._lines.append(self._level(gang, resource))
            if not any(self._levels[gang, resource]):
                del self._levels[gang, resource]
        for key in self._changed_shares:
            self._lines.append(self._queue_level(*key))
            share = self._shares[key]
            if not (share.deserved or share.total or self._guarantees.get(key)):
                del self._shares[key]
                self._guarantees.pop(key, None)
        self._changed, self._changed_shares = {}, {}

    def _queue_level(self, queue: str, resource: str) -> QueueLevel:
        share, guarantee = self._shares[queue, resource], self._guarantees.get((queue, resource), 0)
        return QueueLevel(self._now, queue, resource, share.deserved, guarantee, share.total)

    def _level(self, gang: UsageGang, resource: str) -> Level:
        asked, allocated = self._levels[gang, resource]
        share = self._shares.get((gang.queue, resource))
        return Level(self._now, gang, resource, asked, allocated, share.borrowed(gang) if share is not None else 0)

    def _add(self, holding: Holding, sign: int) -> None:
        gang = holding.gang
        for resource, amount in holding.amounts.items():
            level = self._levels.setdefault((gang, resource), [0, 0])
            level[0] += sign * amount
            touched: Iterable[UsageGang] = ()
            if holding.allocated:
                level[1] += sign * amount
                touched = self._share(gang.queue, resource).change(gang, sign * amount)
                self._changed_shares[gang.queue, resource] = None
            self._changed.update(dict.fromkeys((each, resource) for each in (gang, *touched)))

    def _share(self, queue: str, resource: str) -> Frontier:
        return self._shares.setdefault((queue, resource), Frontier(limited=bool(queue)))
