"""Device-hours are exact: scripted histories with known answers, and random ones counted second by second."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.usage.brute_force import GPU, Change, Clockwork, ShareChange
from trainyard.insight.usage.account import Account, Span, Usage
from trainyard.insight.usage.bodies import shares
from trainyard.insight.usage.ledger import Ledger
from trainyard.insight.usage.levels import Holding, Level, QueueLevel, Share, TakenBack, UsageGang

RAIL = "rdma/rail"
VISION = UsageGang("vision", "TrainJob", "big", "vision", "torch")
LANGUAGE = UsageGang("language", "TrainJob", "train", "language", "torch")


def asks(gang: UsageGang, amount: int = 8, *, has: bool = False) -> Holding:
    return Holding(gang, {GPU: amount}, has)


def account(ledger: Ledger, span: Span) -> Usage:
    account = Account(span)
    account.add(ledger.drain())
    return account.usage()


def test_a_job_waits_runs_and_ends() -> None:
    ledger = Ledger()
    ledger.share(0, "vision", Share({GPU: 8}))
    ledger.hold(10, "pod", asks(VISION))
    ledger.hold(25, "pod", asks(VISION, has=True))
    ledger.hold(125, "pod", None)
    sums = account(ledger, Span(0, 1000)).jobs[VISION, GPU]
    assert (sums.asked, sums.waited, sums.allocated, sums.borrowed) == (8 * 115, 8 * 15, 8 * 100, 0)


def test_only_what_is_inside_the_span_counts() -> None:
    ledger = Ledger()
    ledger.hold(10, "pod", asks(VISION, has=True))
    ledger.hold(110, "pod", None, taken_back=True)
    usage = account(ledger, Span(50, 60)).jobs[VISION, GPU]
    assert (usage.asked, usage.allocated, usage.borrowed, usage.taken_back) == (80, 80, 80, 80)
    assert account(ledger, Span(110, 200)).jobs == {}


def test_a_job_that_runs_is_counted_up_to_the_end_of_the_span() -> None:
    ledger = Ledger()
    ledger.hold(10, "pod", asks(VISION, has=True))
    account = Account(Span(0, 100))
    account.add(ledger.drain())
    assert account.usage().jobs[VISION, GPU].allocated == 8 * 90
    assert account.usage(30).jobs[VISION, GPU].allocated == 8 * 20, "the record ends before the span"


def test_the_job_that_came_last_borrows_until_another_one_leaves() -> None:
    first, second = VISION._replace(name="first"), VISION._replace(name="second")
    ledger = Ledger()
    ledger.share(0, "vision", Share({GPU: 12}))
    ledger.hold(0, "a", asks(first, 8, has=True))
    ledger.hold(10, "b", asks(second, 8, has=True))
    ledger.hold(30, "a", None)
    jobs = account(ledger, Span(0, 40)).jobs
    assert jobs[first, GPU].borrowed == 0
    assert jobs[second, GPU].borrowed == 4 * 20


def test_queues_lend_in_proportion_to_what_they_leave() -> None:
    ledger = Ledger()
    for queue, deserved in (("vision", 4), ("language", 6), ("speech", 2)):
        ledger.share(0, queue, Share({GPU: deserved}))
    ledger.hold(0, "a", asks(VISION, 6, has=True))
    ledger.hold(0, "b", asks(LANGUAGE, 2, has=True))
    usage = account(ledger, Span(0, 30))
    assert usage.lent == {("language", GPU): Fraction(2 * 30 * 4, 6), ("speech", GPU): Fraction(2 * 30 * 2, 6)}
    assert sum(usage.lent.values()) == usage.jobs[VISION, GPU].borrowed


def test_what_no_queue_deserves_is_lent_by_none() -> None:
    ledger = Ledger()
    ledger.share(0, "language", Share({GPU: 2}))
    ledger.hold(0, "a", asks(VISION, 6, has=True))
    usage = account(ledger, Span(0, 10))
    assert (usage.jobs[VISION, GPU].borrowed, usage.lent) == (60, {("language", GPU): 20})


def test_a_guarantee_is_never_lent() -> None:
    ledger = Ledger()
    ledger.share(0, "language", Share({GPU: 6}, {GPU: 4}))
    ledger.hold(0, "a", asks(VISION, 6, has=True))
    ledger.hold(10, "b", asks(LANGUAGE, 5, has=True))
    assert account(ledger, Span(0, 20)).lent == {("language", GPU): 2 * 10 + 1 * 10}


def test_a_queue_with_queues_below_it_has_no_share_of_its_own() -> None:
    def queue(name: str, parent: str, **spec: Any) -> dict[str, Any]:
        return {"metadata": {"name": name}, "spec": {"parent": parent, "deserved": {GPU: "8"}, **spec}}

    found = shares(
        [
            {"metadata": {"name": "root"}, "spec": {"deserved": {GPU: "16"}}},
            queue("research", "root"),
            queue("vision", "research", guarantee={"resource": {GPU: "2"}}),
        ]
    )
    assert found == {"root": Share({}), "research": Share({}), "vision": Share({GPU: 8000}, {GPU: 2000})}


def test_a_smaller_share_makes_the_last_ones_borrow() -> None:
    ledger = Ledger()
    ledger.share(0, "vision", Share({GPU: 8}))
    ledger.hold(0, "a", asks(VISION, 8, has=True))
    ledger.share(10, "vision", Share({GPU: 3}))
    assert account(ledger, Span(0, 20)).jobs[VISION, GPU].borrowed == 5 * 10


def test_many_pods_of_one_instant_are_one_line() -> None:
    ledger = Ledger()
    for pod in range(100):
        ledger.hold(5, f"pod-{pod}", asks(VISION, 1, has=True))
    lines = ledger.drain()
    assert lines == [Level(5, VISION, GPU, 100, 100, 100), QueueLevel(5, "vision", GPU, 0, 0, 100)]


def test_time_never_goes_back() -> None:
    ledger = Ledger()
    ledger.hold(10, "a", asks(VISION, has=True))
    ledger.hold(4, "b", asks(LANGUAGE, has=True))
    assert {line.at for line in ledger.drain() if isinstance(line, Level)} == {10}


def test_a_move_of_a_pod_to_another_job_is_no_loss() -> None:
    ledger = Ledger()
    ledger.hold(0, "a", asks(VISION, has=True))
    ledger.hold(10, "a", asks(LANGUAGE, has=True))
    assert not any(isinstance(line, TakenBack) for line in ledger.drain())
    assert [line for line in ledger.levels() if isinstance(line, Level)] == [Level(10, LANGUAGE, GPU, 8, 8, 8)]


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[Change], list[ShareChange]]:
    """Pods of three jobs in two queues that are created, placed, and end; and shares that change."""
    gangs = (VISION, VISION._replace(name="other"), LANGUAGE)
    changes: list[Change] = []
    for index in range(draw(st.integers(1, 8))):
        gang, amount = draw(st.sampled_from(gangs)), draw(st.integers(1, 3))
        times = sorted(draw(st.lists(st.integers(0, 25), min_size=3, max_size=3, unique=True)))
        steps = [asks(gang, amount), asks(gang, amount, has=True), None][: draw(st.integers(1, 3))]
        taken = draw(st.booleans())
        changes += [(at, f"pod-{index}", each, taken and each is None) for at, each in zip(times, steps, strict=False)]
    shares = draw(
        st.lists(
            st.tuples(st.integers(0, 25), st.sampled_from(("vision", "language", "speech")), st.integers(0, 6)),
            max_size=6,
            unique_by=lambda share: share[:2],
        )
    )
    return sorted(changes, key=lambda change: change[0]), sorted(shares, key=lambda share: share[0])


@pytest.mark.slow
@given(histories(), st.integers(0, 30), st.integers(0, 30))
@settings(max_examples=150, deadline=None)
def test_random_histories_have_the_sums_of_every_second(
    history: tuple[list[Change], list[ShareChange]], one: int, other: int
) -> None:
    changes, shares = history
    span = Span(min(one, other), max(one, other))
    ledger = Ledger()
    for at in range(31):
        for _, queue, deserved in (share for share in shares if share[0] == at):
            ledger.share(at, queue, Share({GPU: deserved}))
        for _, part, holding, taken in (change for change in changes if change[0] == at):
            ledger.hold(at, part, holding, taken_back=taken)
    usage, expected = account(ledger, span), Clockwork(span, changes, shares)
    for gang, sums in expected.sums.items():
        found = usage.jobs.get((gang, GPU))
        assert {name: getattr(found, name, 0) for name in sums} == sums
    assert usage.jobs.keys() <= {(gang, GPU) for gang in expected.sums}
    assert {queue: amount for (queue, _), amount in usage.lent.items() if amount} == {
        queue: amount for queue, amount in expected.lent.items() if amount
    }
    assert sum(each.borrowed for each in usage.jobs.values()) >= sum(usage.lent.values())


def test_a_queue_deserves_no_more_than_its_capability() -> None:
    spec = {"deserved": {GPU: "8", RAIL: "4"}, "guarantee": {"resource": {RAIL: "2"}}, "capability": {GPU: "4"}}
    found = shares([{"metadata": {"name": "vision"}, "spec": spec}])
    assert found == {"vision": Share({GPU: 4000, RAIL: 4000}, {RAIL: 2000})}
