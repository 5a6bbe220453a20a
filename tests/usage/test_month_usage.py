"""Daily totals are exact: their sum is the integral, whenever the recorder restarts and wherever months end."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.usage.brute_force import GPU, Change, ShareChange
from tests.usage.test_account import histories
from tests.usage.test_record import body
from trainyard.insight.usage.account import Account, Span, Sums, Usage
from trainyard.insight.usage.ledger import Ledger
from trainyard.insight.usage.levels import Line, QueueLevel, Share, UsageGang
from trainyard.insight.usage.month_usage import DAY, MonthUsage
from trainyard.insight.usage.record import Head, read_month, read_record
from trainyard.insight.usage.usage_book import UsageBook

STEP = 7 * 3600 + 11
START = 29 * DAY + 12_345
"""Three days before the end of a month."""
END = START + 31 * STEP


def lines_of(changes: list[Change], shares: list[ShareChange]) -> tuple[list[Line], list[list[Line]]]:
    """Return all lines, and the levels of the queues after each step."""
    ledger, lines, levels = Ledger(START), list[Line](), list[list[Line]]()
    for step in range(31):
        for at, queue, deserved in shares:
            if at == step:
                ledger.share(START + at * STEP, queue, Share({GPU: deserved * 1000}))
        for at, part, holding, taken in changes:
            if at == step:
                ledger.hold(START + at * STEP, part, holding, taken_back=taken)
        lines += ledger.drain()
        levels.append([line for line in ledger.levels() if isinstance(line, QueueLevel)])
    return lines, levels


def restarted(book: UsageBook, at: int, levels: list[Line], stored: dict[str, MonthUsage]) -> UsageBook:
    """Return the book of the next recorder, which reads what the last one wrote."""
    book.advance(at)
    newest = dict[str, MonthUsage]()
    for (_, month), each in sorted(book.changed.items()):
        found = read_month(body(each, at))
        assert found is not None
        stored[f"{each.document.tenant}/{month}"] = found
    for each in stored.values():
        newest[each.document.tenant] = each
    again = UsageBook(at, newest.values())
    again.add(levels)
    return again


def sums_of(usage: Usage) -> Mapping[UsageGang, tuple[int, int, int]]:
    found = {gang: sums for (gang, _), sums in usage.jobs.items() if sums.asked}
    return {gang: (each.asked, each.allocated, each.borrowed) for gang, each in found.items()}


@pytest.mark.slow
@given(histories(), st.sets(st.integers(0, 30), max_size=6))
@settings(max_examples=100, deadline=None)
def test_the_days_sum_up_to_the_integral(history: tuple[list[Change], list[ShareChange]], restarts: set[int]) -> None:
    lines, levels = lines_of(*history)
    book, stored = UsageBook(START), dict[str, MonthUsage]()
    for step in range(31):
        at = START + step * STEP
        book.add(line for line in lines if getattr(line, "at", 0) == at)
        if step in restarts:
            book = restarted(book, at, levels[step], stored)
    restarted(book, END, [], stored)
    record = read_record([*(body(each, END) for each in stored.values()), body(Head(START, END))])
    assert record is not None

    def expected(span: Span) -> Usage:
        account = Account(Span(max(span.start, START), min(span.end, END)))
        account.add(lines)
        return account.usage(END)

    total = defaultdict[UsageGang, Sums](Sums)
    lent = 0.0
    for day in range(START // DAY, END // DAY + 1):
        found = record.usage(Span(day * DAY, day * DAY + 1))
        assert sums_of(found) == sums_of(expected(Span(day * DAY, day * DAY + DAY)))
        for (gang, _), sums in found.jobs.items():
            total[gang].add(sums)
        lent += float(sum(found.lent.values()))
    whole = expected(Span(0, END))
    taken_back = sum(sums.taken_back for sums in whole.jobs.values())
    assert sum(sums.taken_back for sums in total.values()) == taken_back
    assert lent == pytest.approx(float(sum(whole.lent.values())), abs=200), "less than a device-second is rounded"


def test_a_level_from_before_the_last_write_lends_nothing_twice() -> None:
    """A pod that was bound a second before a write may be seen after it."""
    book = UsageBook(0)
    share = QueueLevel(0, "vision", GPU, 4000, 0, 0)
    book.add([share, QueueLevel(0, "language", GPU, 0, 0, 4000)])
    book.advance(100)
    book.add([share._replace(at=95)])
    book.advance(110)
    (row,) = book.months[""].document.lent
    assert row.lent == 110 * 4000
