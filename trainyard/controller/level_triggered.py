"""Level-triggered loop of the leader's other tasks: step until done, then wait for a change."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import NoReturn

from trainyard.kube import Backoff

__all__ = ["keep"]


async def keep(step: Callable[[], Awaitable[bool]], changed: asyncio.Event, backoff: Backoff) -> NoReturn:
    """Run a step again after each change, and after a backoff while it has not done all; until cancelled.

    Parameters
    ----------
    step
        Does what is missing; returns whether nothing is left.
    changed
        Set when something changes; cleared before each step.
    backoff
        Waiting while something is left.
    """
    while True:
        changed.clear()
        wait: float | None = None
        if await step():
            backoff.reset()
        else:
            wait = backoff.next()
        try:
            async with asyncio.timeout(wait):
                await changed.wait()
        except TimeoutError:
            continue
