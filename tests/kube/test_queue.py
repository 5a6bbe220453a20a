from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from trainyard.kube.work_queue import QueueClosedError, WorkQueue


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def make(clock: Clock | None = None) -> WorkQueue[str]:
    return WorkQueue(clock=clock or Clock(), uniform=lambda: 1.0)


def test_a_key_added_twice_is_handed_out_once() -> None:
    queue = make()
    assert queue.add("a")
    assert not queue.add("a")
    assert (queue.pop(), queue.pop()) == ("a", None)


def test_a_key_added_while_worked_on_is_handed_out_again_afterwards_only() -> None:
    queue = make()
    queue.add("a")
    queue.pop()
    queue.add("a")
    assert queue.pop() is None
    queue.done("a")
    assert queue.pop() == "a"


def test_urgent_keys_come_first_and_a_waiting_key_can_become_urgent() -> None:
    queue = make()
    for key in ("a", "b", "c"):
        queue.add(key, lane=1)
    queue.add("d")
    queue.add("c")
    assert [queue.pop() for _ in range(5)] == ["d", "c", "a", "b", None]


def test_failures_wait_twice_as_long_each_time_and_success_forgets() -> None:
    queue = make()
    assert [queue.retry("a") for _ in range(3)] == [0.005, 0.01, 0.02]
    assert queue.failures("a") == 3
    assert max(queue.retry("b") for _ in range(40)) == 60.0
    queue.forget("a")
    assert queue.retry("a") == 0.005
    assert queue.retry("a", at_least=7) == 7


def test_the_earliest_of_several_delays_counts() -> None:
    clock = Clock()
    queue = make(clock)
    queue.add_after("a", 10)
    queue.add_after("a", 5)
    queue.add_after("a", 20)
    clock.now = 4.9
    assert queue.pop() is None
    clock.now = 5
    assert queue.pop() == "a"
    queue.done("a")
    clock.now = 100
    assert queue.pop() is None


async def test_a_waiting_worker_is_woken_by_add_by_time_and_by_close() -> None:
    queue: WorkQueue[str] = WorkQueue()
    waiting = asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    queue.add("a")
    assert await waiting == "a"
    waiting = asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    queue.add_after("b", 0.01)
    assert await asyncio.wait_for(waiting, 1) == "b"
    waiting = asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    queue.close()
    with pytest.raises(QueueClosedError):
        await waiting
    assert not queue.add("c")


async def test_a_cancelled_worker_does_not_swallow_the_wake_up_of_another() -> None:
    queue: WorkQueue[str] = WorkQueue()
    first, second = asyncio.create_task(queue.get()), asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    queue.add("a")
    first.cancel()
    assert await asyncio.wait_for(second, 1) == "a"


def held_by(queue: WorkQueue[str]) -> int:
    """Count every entry of every collection."""
    collections = [value for value in vars(queue).values() if isinstance(value, list | dict | set)]
    return sum(len(value) for value in collections if value is not queue._lanes) + sum(map(len, queue._lanes))


def test_a_disabled_queue_takes_nothing_in_and_holds_nothing() -> None:
    queue: WorkQueue[str] = WorkQueue(clock=Clock(), enabled=False)
    assert not queue.add("a")
    queue.add_after("b", 5)
    assert queue.retry("c", at_least=3) == 3
    assert (queue.pop(), held_by(queue), queue.enabled) == (None, 0, False)
    queue.enable()
    assert queue.add("a")
    assert queue.pop() == "a"
    queue.add("a")
    queue.add("b")
    queue.add("c", lane=1)
    queue.add_after("d", 5)
    queue.retry("e")
    queue.disable()
    assert (queue.processing, len(queue), queue.delayed, queue.failures("e")) == (1, 0, 0, 0)
    queue.done("a")
    assert (queue.pop(), held_by(queue)) == (None, 0)


def test_nothing_is_kept_of_a_key_that_is_gone() -> None:
    clock = Clock()
    queue = make(clock)
    for number in range(1000):
        key = str(number)
        queue.add(key)
        assert queue.pop() == key
        queue.add_after(key, 2.0**63)
        queue.retry(key)
        queue.add(key, lane=1)
        queue.done(key)
        queue.discard(key)
        queue.add("live")
        assert queue.pop() == "live"
        queue.add_after("live", 10)
        queue.done("live")
    assert queue.delayed == 1
    assert held_by(queue) <= 1 + 4 + 2 * 64
    clock.now = 10
    assert queue.pop() == "live"


def test_a_time_that_comes_ever_nearer_is_one_time() -> None:
    queue = make()
    for number in range(1000):
        queue.add_after("a", 1e6 - number)
    assert queue.delayed == 1
    assert held_by(queue) <= 1 + 2 + 64


def test_a_key_that_comes_back_after_it_was_discarded_is_worked_on_once() -> None:
    clock = Clock()
    queue = make(clock)
    queue.add("a")
    queue.discard("a")
    queue.add("a", lane=1)
    assert (queue.pop(), queue.pop()) == ("a", None)
    queue.add_after("a", 5)
    queue.discard("a")
    queue.add_after("a", 7)
    queue.done("a")
    clock.now = 6
    assert queue.pop() is None
    clock.now = 7
    assert (queue.pop(), queue.pop()) == ("a", None)


async def test_a_delay_of_any_length_is_a_delay() -> None:
    queue: WorkQueue[str] = WorkQueue()
    waiting = asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    queue.add_after("never", 2.0**63)
    queue.add_after("soon", 0.01)
    assert await asyncio.wait_for(waiting, 1) == "soon"


@given(st.lists(st.integers(0, 5), max_size=60))
@settings(max_examples=25, deadline=None)
def test_many_workers_never_hold_a_key_twice_and_lose_none(keys: list[int]) -> None:
    async def main() -> None:
        queue: WorkQueue[int] = WorkQueue()
        held: set[int] = set()
        seen: set[int] = set()

        async def worker() -> None:
            while True:
                try:
                    key = await queue.get()
                except QueueClosedError:
                    return
                assert key not in held
                held.add(key)
                await asyncio.sleep(0)
                seen.add(key)
                held.discard(key)
                queue.done(key)

        workers = [asyncio.create_task(worker()) for _ in range(4)]
        for key in keys:
            queue.add(key, lane=key % 2)
            await asyncio.sleep(0)
        while len(queue) or queue.processing:  # noqa: ASYNC110
            await asyncio.sleep(0)
        queue.close()
        await asyncio.gather(*workers)
        assert seen == set(keys)

    asyncio.run(main())


class QueueMachine(RuleBasedStateMachine):
    """The queue against a model: what waits, what is worked on, what is due when."""

    keys = st.sampled_from("abcd")

    def __init__(self) -> None:
        super().__init__()
        self.clock = Clock()
        self.queue = make(self.clock)
        self.waiting: set[str] = set()
        self.working: set[str] = set()
        self.due: dict[str, float] = {}

    def promote(self) -> None:
        ready = [key for key, at in self.due.items() if at <= self.clock.now]
        for key in ready:
            del self.due[key]
            self.waiting.add(key)

    @rule(key=keys, lane=st.integers(0, 1))
    def add(self, key: str, lane: int) -> None:
        self.queue.add(key, lane=lane)
        self.waiting.add(key)

    @rule(key=keys, delay=st.floats(0.1, 10))
    def later(self, key: str, delay: float) -> None:
        self.queue.add_after(key, delay)
        self.due[key] = min(self.due.get(key, float("inf")), self.clock.now + delay)

    @rule(seconds=st.floats(0, 10))
    def passes(self, seconds: float) -> None:
        self.clock.now += seconds

    @rule()
    def take(self) -> None:
        self.promote()
        key = self.queue.pop()
        free = self.waiting - self.working
        assert (key in free) if free else (key is None)
        if key is not None:
            self.waiting.discard(key)
            self.working.add(key)

    @precondition(lambda self: self.working)
    @rule()
    def finish(self) -> None:
        key = min(self.working)
        self.working.discard(key)
        self.queue.done(key)

    @invariant()
    def counts_agree(self) -> None:
        assert self.queue.processing == len(self.working)


TestQueueMachine = QueueMachine.TestCase
TestQueueMachine.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)


def test_what_was_asked_for_later_keeps_its_lane() -> None:
    clock = [0.0]
    queue: WorkQueue[str] = WorkQueue(clock=lambda: clock[0])
    queue.add_after("later", 1.0, lane=1)
    clock[0] = 2.0
    queue.add("new")
    assert [queue.pop(), queue.pop()] == ["new", "later"]


def test_a_flood_of_urgent_keys_does_not_stop_the_others() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add("deadline", lane=1)
    for number in range(1000):
        queue.add(f"new-{number}")
    assert "deadline" in [queue.pop() for _ in range(8)]
