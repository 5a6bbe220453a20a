"""Level-triggered loop of the leader's other controllers: step until done, then wait for a change."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import NoReturn

from trainyard.kube import Backoff

__all__ = ["run_level_triggered"]


async def run_level_triggered(
    step: Callable[[], Awaitable[bool]], changed: asyncio.Event, backoff: Backoff
) -> NoReturn:
    """Run a step after each change, and with backoff while it is not done; until cancelled.

    Parameters
    ----------
    step
        Reconciles; returns whether it is done.
    changed
        Set on a change; cleared before each step.
    backoff
        Delays while the step is not done.
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
