"""Writers that come and go count what exists exactly, and what is gone until the last write."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.usage.brute_force import GPU
from trainyard.insight.usage.account import Account, Span
from trainyard.insight.usage.ledger import Ledger
from trainyard.insight.usage.levels import Holding, Line, Share, UsageGang
from trainyard.insight.usage.resumption import resumed

JOBS = tuple(UsageGang("vision", "TrainJob", name, "vision") for name in ("first", "second"))
END = 60


@dataclass(frozen=True)
class Pod:
    """A pod that is created, gets a node, ends, and is deleted some time later."""

    name: str
    gang: UsageGang
    created: int
    bound: int
    ended: int
    deleted: int

    def steps(self) -> list[tuple[int, Holding | None]]:
        """Return what it holds from when on."""
        amounts = {GPU: 1}
        return [
            (self.created, Holding(self.gang, amounts)),
            (self.bound, Holding(self.gang, amounts, True)),
            (self.ended, None),
        ]


@dataclass(frozen=True)
class Writer:
    """A process that writes everything up to its last write."""

    start: int
    last: int


def record(pods: list[Pod], writers: list[Writer]) -> list[Line]:
    """Return the lines that the writers write, one after the other."""
    lines: list[Line] = []
    until = writers[0].start
    for writer in writers:
        seen = [pod for pod in pods if pod.created <= writer.start < pod.deleted]
        ledger = Ledger()
        ledger.share(0, "vision", Share({GPU: 2}))
        known = [(at, pod, holding) for pod in seen for at, holding in pod.steps() if at <= writer.start]
        for at, pod, holding in sorted(known, key=lambda step: step[0]):
            ledger.hold(at, pod.name, holding)
        start = ledger.drain()
        ledger.advance(writer.start)
        lines += resumed(lines, start, until)
        watched = [
            (at, pod.name, holding)
            for pod in pods
            for at, holding in pod.steps()
            if writer.start < at <= writer.last and (pod in seen or pod.created > writer.start)
        ]
        for at, name, holding in sorted(watched, key=lambda step: step[0]):
            ledger.hold(at, name, holding)
        lines += ledger.drain()
        until = writer.last
    return lines


def expected(pod: Pod, writers: list[Writer]) -> tuple[int, int]:
    """Return the seconds for which a pod asked and was allocated, as far as a writer knows."""
    ended = pod.ended
    for before, after in zip(writers, [*writers[1:], Writer(END * 2, END * 2)], strict=True):
        if before.last < pod.deleted <= after.start and pod.ended > before.last:
            ended = before.last if pod.created <= before.last else pod.created
            break
    if pod.deleted <= writers[0].start:
        ended = pod.created
    span = Span(writers[0].start, writers[-1].last)
    return span.overlap(pod.created, ended), span.overlap(min(pod.bound, ended), ended)


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[Pod], list[Writer]]:
    pods = []
    for number in range(draw(st.integers(1, 6))):
        times = sorted(draw(st.lists(st.integers(1, END), min_size=4, max_size=4, unique=True)))
        pods.append(Pod(f"pod-{number}", draw(st.sampled_from(JOBS)), *times))
    times = sorted(draw(st.lists(st.integers(0, END), min_size=2, max_size=8, unique=True)))
    writers = [Writer(*pair) for pair in zip(times[::2], times[1::2], strict=False)]
    return pods, writers


@pytest.mark.slow
@given(histories())
@settings(max_examples=300, deadline=None)
def test_writers_that_come_and_go_lose_only_what_is_gone(history: tuple[list[Pod], list[Writer]]) -> None:
    pods, writers = history
    account = Account(Span(writers[0].start, END))
    account.add(record(pods, writers))
    usage = account.usage(writers[-1].last)
    for gang in JOBS:
        sums = [expected(pod, writers) for pod in pods if pod.gang == gang]
        found = usage.jobs.get((gang, GPU))
        asked, allocated = sum(each[0] for each in sums), sum(each[1] for each in sums)
        assert (found.asked if found else 0, found.allocated if found else 0) == (asked, allocated), gang
