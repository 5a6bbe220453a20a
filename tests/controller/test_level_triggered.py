from __future__ import annotations

import asyncio

import pytest

from trainyard.controller.level_triggered import run_level_triggered
from trainyard.kube.api_errors import ApiError, FencedError, TransportError
from trainyard.kube.backoff import Backoff


class Step:
    """Raises given errors in turn, then is done."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.done = asyncio.Event()

    async def __call__(self) -> bool:
        if self.errors:
            raise self.errors.pop(0)
        self.done.set()
        return True


async def test_every_error_of_a_step_is_logged_and_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    step = Step(ApiError(500, "InternalError", "down"), TransportError("no answer"), KeyError("spec"))
    running = asyncio.create_task(run_level_triggered("things", step, asyncio.Event(), Backoff(0.001, 0.002)))
    async with asyncio.timeout(30):
        await step.done.wait()
    running.cancel()
    assert [record.exc_info is not None for record in caplog.records] == [False, False, True]
    assert all(record.message.startswith("things: ") for record in caplog.records)


async def test_a_step_of_a_process_that_no_longer_leads_ends_it() -> None:
    with pytest.raises(FencedError):
        await run_level_triggered("things", Step(FencedError("not sent")), asyncio.Event(), Backoff(0.001, 0.002))
