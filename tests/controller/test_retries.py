"""When a job is looked at again after an error of the infrastructure or of the controller itself."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from aiohttp import web

from tests.controller.harness import (
    CLUSTER_RUNTIMES,
    JOB_SETS,
    TRAIN_JOBS,
    Clock,
    Controller,
    conditions,
    controller,
    refusing,
    runtime,
    submit,
    train_job,
)
from tests.controller.test_policy import Decisions, gate
from tests.kube.fake_api import FakeApi, error, eventually
from trainyard.controller import lifecycle

KEY = ("team", "job")


webhook_away = refusing("POST", "/jobsets", 500, "InternalError", "failed calling webhook")


def delay(process: Controller) -> float:
    """Return the seconds until the job is reconciled again."""
    queue = process.manager.queue
    return queue._due[KEY] - queue._clock()


async def blocked_for_long(process: Controller) -> None:
    """Wait until the backoff of the job is near its maximum."""
    queue = process.manager.queue
    await eventually(lambda: queue.failures(KEY) >= 3)
    queue._backoffs[KEY].failures = 20
    await eventually(lambda: queue.failures(KEY) >= 21 and KEY in queue._due)


async def test_the_next_look_is_not_after_the_deadline_while_a_webhook_is_away(api: FakeApi) -> None:
    api.put(CLUSTER_RUNTIMES, runtime())
    api.fault = webhook_away
    api.put(TRAIN_JOBS, train_job(activeDeadlineSeconds=3))
    async with controller(api) as process:
        await blocked_for_long(process)
        assert delay(process) <= 3


async def test_the_next_look_is_not_after_the_deadline_while_the_policy_server_is_away(api: FakeApi) -> None:
    decisions = Decisions()
    decisions.away = True
    submit(api, activeDeadlineSeconds=3)
    async with controller(api, gate=gate(decisions)) as process:
        await blocked_for_long(process)
        assert delay(process) <= 3


async def test_a_deadline_that_cannot_be_recorded_does_not_defeat_the_backoff(api: FakeApi) -> None:
    def no_status(fake: FakeApi, request: web.Request) -> web.StreamResponse | None:
        return error(500, "InternalError", "no") if request.path.endswith("/status") else None

    clock = Clock()
    api.put(CLUSTER_RUNTIMES, runtime())
    api.fault = no_status
    api.put(TRAIN_JOBS, train_job(activeDeadlineSeconds=3))
    clock.now = clock.now.replace(hour=1)
    async with controller(api, clock) as process:
        await blocked_for_long(process)
        assert delay(process) > 10


async def test_an_hour_of_retry_after_counts_as_a_minute(api: FakeApi) -> None:
    def maintenance(fake: FakeApi, request: web.Request) -> web.StreamResponse | None:
        creates = request.method == "POST" and request.path.endswith("/jobsets")
        return error(503, "ServiceUnavailable", "maintenance", Retry_After="3600") if creates else None

    api.put(CLUSTER_RUNTIMES, runtime())
    api.fault = maintenance
    api.put(TRAIN_JOBS, train_job())
    async with controller(api) as process:
        await eventually(lambda: KEY in process.manager.queue._due)
        assert 50 < delay(process) <= 60


async def test_an_unexpected_error_of_the_renderer_leaves_the_status_current(
    api: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> None:
        raise KeyError("defect")

    monkeypatch.setattr(lifecycle, "render", broken)
    submit(api, suspend=True)
    async with controller(api, Clock()) as process:
        await eventually(lambda: "Suspended" in conditions(api))
        await eventually(lambda: process.manager.queue.failures(KEY) >= 1)


async def test_a_job_set_deleted_before_the_answer_of_its_creation_is_not_created_again(api: FakeApi) -> None:
    made: list[str] = []
    answer = api.answer

    async def slow(request: web.Request) -> web.StreamResponse:
        response = await answer(request)
        if request.method == "POST" and request.path.endswith("/jobsets"):
            made.append(api.of("jobsets")[0]["metadata"]["uid"])
            await asyncio.sleep(0.1)
            api.remove(JOB_SETS, "team", "job")
            await asyncio.sleep(0.1)  # The watch reports the deletion first.
        return response

    api.answer = slow  # type: ignore[method-assign]
    submit(api, gang=False)
    async with controller(api):
        await eventually(lambda: "Failed" in conditions(api))
    assert conditions(api)["Failed"] == ("True", "JobSetMissing")
    assert len(made) == 1


@pytest.mark.slow
async def test_a_job_that_replaces_one_of_its_name_in_a_relist_is_reported_and_retried_as_a_new_one(
    api: FakeApi,
) -> None:
    api.put(TRAIN_JOBS, train_job())
    async with controller(api) as process:
        await eventually(lambda: process.reconciler._backoffs)
        process.reconciler._backoffs[KEY].failures = 20
        await process.events.flush()
        api.freeze_watches(TRAIN_JOBS)
        api.remove(TRAIN_JOBS, "team", "job")
        second = api.put(TRAIN_JOBS, train_job())["metadata"]["uid"]
        api.compact()
        api.thaw_watches()
        api.cut_watches()
        await eventually(lambda: process.cache.train_jobs.store.get(*KEY)["metadata"]["uid"] == second)
        await process.settle()
        assert process.reconciler._backoffs[KEY].failures < 5
    await eventually(lambda: second in {event["involvedObject"]["uid"] for event in api.of("events")})
