"""Frontier between what a queue deserves and what it borrows: the devices that its jobs got last are borrowed."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Iterable

from trainyard.insight.usage.levels import UsageGang


class Frontier:
    """The allocated units of a resource in one queue, in the order in which jobs got them, divided at its share.

    A unit crosses the division once unless the share changes, so the work is linear in the number of changes.

    Parameters
    ----------
    limited
        Whether there is a share; what is in no queue borrows nothing.
    """

    def __init__(self, *, limited: bool = True) -> None:
        self._limited = limited
        self.deserved = 0
        self.total = 0
        self._inside = 0
        self._last = 0
        self._own: OrderedDict[int, int] = OrderedDict()
        self._over: OrderedDict[int, int] = OrderedDict()
        """Units by the number of their allocation; only the first of ``_over`` can also be the last of ``_own``."""
        self._gangs: dict[int, UsageGang] = {}
        self._allocations: defaultdict[UsageGang, list[int]] = defaultdict(list)
        self._borrowed: defaultdict[UsageGang, int] = defaultdict(int)

    def borrowed(self, gang: UsageGang) -> int:
        """Return the units that a job borrows."""
        return self._borrowed.get(gang, 0)

    def change(self, gang: UsageGang, amount: int) -> Iterable[UsageGang]:
        """Add units to a job, or remove those that it got last; return the jobs that borrow more or less."""
        self.total += amount
        if not self._limited:
            return ()
        if amount > 0:
            self._allocate(gang, amount)
            return ()
        self._remove(gang, -amount)
        return self._promote()

    def deserve(self, amount: int) -> Iterable[UsageGang]:
        """Change the share; return the jobs that borrow more or less."""
        self.deserved = amount
        return self._promote() if self._inside <= amount else self._demote()

    def _allocate(self, gang: UsageGang, amount: int) -> None:
        if self._gangs.get(self._last) != gang:
            self._last += 1
            self._gangs[self._last] = gang
            self._allocations[gang].append(self._last)
        inside = min(amount, max(0, self.deserved - self._inside))
        self._put_own(self._last, inside)
        self._put_over(self._last, amount - inside)

    def _remove(self, gang: UsageGang, amount: int) -> None:
        numbers = self._allocations[gang]
        while amount:
            number = numbers[-1]
            over = min(amount, self._over.get(number, 0))
            own = min(amount - over, self._own.get(number, 0))
            self._put_over(number, -over)
            self._put_own(number, -own)
            amount -= over + own
            if number not in self._own and number not in self._over:
                numbers.pop()
                del self._gangs[number]
        if not numbers:
            del self._allocations[gang]

    def _promote(self) -> list[UsageGang]:
        changed = []
        while self._over and self._inside < self.deserved:
            number, over = next(iter(self._over.items()))
            moved = min(over, self.deserved - self._inside)
            self._put_over(number, -moved)
            self._put_own(number, moved)
            changed.append(self._gangs[number])
        return changed

    def _demote(self) -> list[UsageGang]:
        changed = []
        while self._inside > self.deserved:
            number, own = next(reversed(self._own.items()))
            moved = min(own, self._inside - self.deserved)
            self._put_own(number, -moved)
            self._put_over(number, moved)
            self._over.move_to_end(number, last=False)
            changed.append(self._gangs[number])
        return changed

    def _put_own(self, number: int, amount: int) -> None:
        self._inside += amount
        _put(self._own, number, amount)

    def _put_over(self, number: int, amount: int) -> None:
        gang = self._gangs[number]
        self._borrowed[gang] += amount
        if not self._borrowed[gang]:
            del self._borrowed[gang]
        _put(self._over, number, amount)


def _put(side: OrderedDict[int, int], number: int, amount: int) -> None:
    if amount:
        side[number] = side.get(number, 0) + amount
        if not side[number]:
            del side[number]
