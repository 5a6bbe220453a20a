"""Run a coroutine in a thread: the Pulumi program runs inside an event loop, which cannot run a second one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

__all__ = ["run_in_thread"]

T = TypeVar("T")


def run_in_thread(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine in a new event loop in a new thread, and return its result."""
    with ThreadPoolExecutor(1, thread_name_prefix="run_in_thread") as executor:
        return executor.submit(lambda: asyncio.run(work())).result()
