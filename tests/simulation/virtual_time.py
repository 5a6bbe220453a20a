"""An event loop in virtual time: when nothing is ready, the clock jumps to the next timer.

A run is a function of its seed: no real clock, no sockets and no threads. What the code under test takes from the
process (`time.monotonic`, the module `random`) comes from the loop and the seed while a run lasts.
"""

from __future__ import annotations

import asyncio
import datetime
import random
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar
from unittest import mock

from trainyard.kube.work_queue import WorkQueue

T = TypeVar("T")
EPOCH = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
"""Wall clock at virtual second 0."""


class DeadlockError(Exception):
    """Nothing is ready and no timer is set: the run would never end."""


class _Clock:
    """Stands where the loop expects its selector: waiting for I/O becomes moving the clock."""

    def __init__(self) -> None:
        self.now = 0.0

    def select(self, timeout: float | None) -> list[Any]:
        if timeout is None:
            raise DeadlockError("nothing is ready and no timer is set")
        if timeout > 0:
            self.now += timeout
        return []

    def close(self) -> None:
        """Nothing is open."""


class VirtualTimeLoop(asyncio.BaseEventLoop):
    """An event loop without I/O."""

    def __init__(self) -> None:
        super().__init__()
        self._selector = _Clock()
        self._clock_resolution = 1e-9
        self.failures: list[dict[str, Any]] = []
        self.set_exception_handler(lambda loop, context: self.failures.append(context))

    def time(self) -> float:
        """Return the virtual seconds since the start of the run."""
        return self._selector.now

    def wall(self) -> datetime.datetime:
        """Return the virtual wall clock (UTC)."""
        return EPOCH + datetime.timedelta(seconds=self._selector.now)

    def _process_events(self, events: list[Any]) -> None:
        """There is no I/O."""

    def _write_to_self(self) -> None:
        """No other thread could wake the loop."""


def run_in_virtual_time(main: Callable[[VirtualTimeLoop], Coroutine[Any, Any, T]], *, seed: int) -> T:
    """Run a coroutine function on a loop of its own and return its result.

    Parameters
    ----------
    main
        Called with the loop.
    seed
        Seed of the module `random` while the run lasts.
    """
    loop = VirtualTimeLoop()
    with _process_of(loop, seed):
        try:
            return loop.run_until_complete(main(loop))
        finally:
            # A set's order depends on addresses, and tasks that end may still write.
            tasks = sorted(asyncio.all_tasks(loop), key=lambda task: (len(task.get_name()), task.get_name()))
            for task in tasks:
                task.cancel()
            if tasks:
                loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.close()


@contextmanager
def _process_of(loop: VirtualTimeLoop, seed: int) -> Iterator[None]:
    """Replace the clock and the randomness of the process."""
    state = random.getstate()
    random.seed(seed)
    defaults = WorkQueue.__init__.__kwdefaults__ or {}
    clock = defaults["clock"]
    defaults["clock"] = loop.time
    asyncio.set_event_loop(loop)
    try:
        with mock.patch.object(time, "monotonic", loop.time):
            yield
    finally:
        asyncio.set_event_loop(None)
        defaults["clock"] = clock
        random.setstate(state)
