"""Level-triggered loop of the leader's other controllers: step until done, then wait for a change."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import NoReturn

from trainyard.kube.api_errors import ApiError, FencedError, TransportError
from trainyard.kube.backoff import Backoff

_LOG = logging.getLogger(__name__)


async def run_level_triggered(
    name: str, step: Callable[[], Awaitable[bool]], changed: asyncio.Event, backoff: Backoff
) -> NoReturn:
    """Run a step after each change, and with backoff while it fails or is not done; until cancelled.

    No error of one of these loops may end the leader, whose other loops do not depend on it.

    Parameters
    ----------
    name
        What the step reconciles, for the log.
    step
        Reconciles; returns whether it is done.
    changed
        Set on a change; cleared before each step.
    backoff
        Delays while the step is not done.

    Raises
    ------
    FencedError
        If this process is no longer the leader.
    """
    while True:
        changed.clear()
        wait: float | None = None
        done = False
        try:
            done = await step()
        except FencedError:
            raise
        except Exception as error:
            log_failure(name, error)
        if done:
            backoff.reset()
        else:
            wait = backoff.next()
        try:
            async with asyncio.timeout(wait):
                await changed.wait()
        except TimeoutError:
            continue


def log_failure(name: str, error: Exception) -> None:
    """Log that something is tried again, with the traceback of an unexpected error."""
    expected = isinstance(error, ApiError | TransportError)
    _LOG.warning("%s: %s; retrying", name, error, exc_info=None if expected else error)
