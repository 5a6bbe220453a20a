from __future__ import annotations

import asyncio
import random
import time

import pytest

from tests.simulation.virtual_time import DeadlockError, VirtualTimeLoop, run_in_virtual_time
from trainyard.kube.work_queue import WorkQueue


def test_hours_pass_in_no_time() -> None:
    async def main(loop: VirtualTimeLoop) -> tuple[float, float, str]:
        await asyncio.sleep(36_000)
        return loop.time(), time.monotonic(), loop.wall().isoformat()

    started = time.process_time()
    assert run_in_virtual_time(main, seed=1) == (36_000, 36_000, "2026-01-01T10:00:00+00:00")
    assert time.process_time() - started < 1


def test_timers_fire_in_order_and_timeouts_count_virtual_seconds() -> None:
    async def main(loop: VirtualTimeLoop) -> list[tuple[str, float]]:
        seen: list[tuple[str, float]] = []

        async def note(name: str, after: float) -> None:
            await asyncio.sleep(after)
            seen.append((name, loop.time()))

        late, early = asyncio.create_task(note("late", 20)), asyncio.create_task(note("early", 5))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(10):
                await asyncio.Event().wait()
        seen.append(("timeout", loop.time()))
        await asyncio.gather(late, early)
        return seen

    assert run_in_virtual_time(main, seed=1) == [("early", 5), ("timeout", 10), ("late", 20)]


def test_the_same_seed_gives_the_same_run() -> None:
    async def main(loop: VirtualTimeLoop) -> list[float]:
        queue: WorkQueue[str] = WorkQueue()
        times = []
        for _ in range(5):
            queue.retry("key")
            queue.done(await queue.get())
            times.append(loop.time())
        return times

    assert run_in_virtual_time(main, seed=7) == run_in_virtual_time(main, seed=7)
    assert run_in_virtual_time(main, seed=7) != run_in_virtual_time(main, seed=8)


def test_the_randomness_and_the_clock_of_the_process_come_back() -> None:
    before, clock = random.getstate(), time.monotonic

    async def main(loop: VirtualTimeLoop) -> float:
        return random.random()

    run_in_virtual_time(main, seed=1)
    assert random.getstate() == before
    assert time.monotonic is clock


def test_a_run_that_could_never_end_says_so() -> None:
    async def main(loop: VirtualTimeLoop) -> None:
        await asyncio.Event().wait()

    with pytest.raises(DeadlockError):
        run_in_virtual_time(main, seed=1)


def test_a_failure_without_an_awaiter_is_kept() -> None:
    async def main(loop: VirtualTimeLoop) -> list[str]:
        loop.call_soon(lambda: 1 / 0)
        await asyncio.sleep(1)
        return [type(context["exception"]).__name__ for context in loop.failures]

    assert run_in_virtual_time(main, seed=1) == ["ZeroDivisionError"]
