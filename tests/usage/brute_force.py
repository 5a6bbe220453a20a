"""Usage counted second by second, device by device: what the account must agree with."""

from __future__ import annotations

from collections import defaultdict
from fractions import Fraction

from trainyard.insight.usage.account import Span
from trainyard.insight.usage.levels import Holding, UsageGang

GPU = "nvidia.com/gpu"
Change = tuple[int, str, Holding | None, bool]
ShareChange = tuple[int, str, int]


class Clockwork:
    """Sums of a scripted history, from the definitions in docs/usage.md."""

    def __init__(self, span: Span, changes: list[Change], shares: list[ShareChange]) -> None:
        self.sums: defaultdict[UsageGang, defaultdict[str, int]] = defaultdict(lambda: defaultdict(int))
        self.lent: defaultdict[str, Fraction] = defaultdict(Fraction)
        self._parts: dict[str, tuple[Holding, int]] = {}
        self._order: defaultdict[str, list[UsageGang]] = defaultdict(list)
        """By queue, the units of each job in the order in which it got them; those inside the share first."""
        self._deserved: defaultdict[str, int] = defaultdict(int)
        last = max([span.end, *(at for at, *_ in changes), *(at for at, *_ in shares)])
        for now in range(last + 1):
            for at, queue, deserved in shares:
                if at == now:
                    self._deserved[queue] = deserved
            for at, part, holding, taken in changes:
                if at == now:
                    self._change(now, part, holding, taken, span)
            if span.start <= now < span.end:
                self._count()

    def _change(self, now: int, part: str, holding: Holding | None, taken: bool, span: Span) -> None:
        before, since = self._parts.pop(part, (None, now))
        if before is not None and before.allocated:
            if taken:
                amount = before.amounts[GPU] * span.overlap(since, now)
                self.sums[before.gang]["taken_back"] += amount
            order = self._order[before.gang.queue]
            for _ in range(before.amounts[GPU]):
                # The unit that it got last.
                order.reverse()
                order.remove(before.gang)
                order.reverse()
        if holding is not None:
            self._parts[part] = holding, now
            if holding.allocated:
                self._order[holding.gang.queue] += [holding.gang] * holding.amounts[GPU]

    def _count(self) -> None:
        for holding, _ in self._parts.values():
            self.sums[holding.gang]["asked"] += holding.amounts[GPU]
        borrowed = 0
        for queue, order in self._order.items():
            for place, gang in enumerate(order):
                self.sums[gang]["allocated"] += 1
                if place >= self._deserved[queue]:
                    self.sums[gang]["borrowed"] += 1
                    borrowed += 1
        unused = {
            queue: deserved - len(self._order[queue])
            for queue, deserved in self._deserved.items()
            if deserved > len(self._order[queue])
        }
        for queue, left in unused.items():
            self.lent[queue] += min(Fraction(1), Fraction(borrowed, sum(unused.values()))) * left
