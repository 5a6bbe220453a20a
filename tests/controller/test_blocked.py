"""Blocked TrainJobs: events, metrics and retries; the status is updated nevertheless."""

from __future__ import annotations

import asyncio
import datetime
from typing import Any

import pytest

from tests.controller.harness import (
    CLUSTER_RUNTIMES,
    JOB_SETS,
    TRAIN_JOBS,
    Clock,
    Controller,
    change,
    conditions,
    controller,
    runtime,
    train_job,
)
from tests.kube.fake_api import FakeApi, error, eventually
from trainyard.controller import reconcile

KEY = ("team", "job")


def refusing(plural: str, method: str, answer: Any) -> Any:
    def refuse(fake: FakeApi, request: Any) -> Any:
        return answer() if request.method == method and f"/{plural}" in request.path else None

    return refuse


def messages(api: FakeApi) -> list[str]:
    return [event["message"] for event in api.of("events")]


@pytest.mark.parametrize(
    ("status", "reason", "message"),
    [
        (400, "BadRequest", "strict decoding error"),
        (403, "Forbidden", "exceeded quota: objects"),
        (413, "RequestEntityTooLarge", "Request entity too large: limit is 3145728"),
        (422, "Invalid", "admission webhook says no"),
        (500, "InternalError", "etcdserver: request is too large"),
        (500, "InternalError", 'failed calling webhook "jobset"'),
    ],
)
@pytest.mark.parametrize("plural", ["configmaps", "podgroups", "jobsets"])
async def test_a_rejection_of_any_object_is_reported_counted_and_retried(
    api: FakeApi, plural: str, status: int, reason: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reconcile, "_RETRY_SECONDS", (0.05, 60.0))
    api.put(CLUSTER_RUNTIMES, runtime())
    api.put(TRAIN_JOBS, train_job(suspend=True))
    api.fault = refusing(plural, "POST", lambda: error(status, reason, message))
    async with controller(api) as process:
        await eventually(lambda: any(message in each for each in messages(api)))
        await eventually(process.manager.blocked)
        [(count, _)] = process.manager.blocked().values()
        assert count == 1
        assert conditions(api) == {"Suspended": ("True", "Suspended")}, "the status is written whatever is refused"
        api.fault = None
        await eventually(lambda: api.find("jobsets", "job", "team"))
        await process.settle()
        assert process.manager.blocked() == {}


async def test_a_blocked_resume_counts_its_deadline_from_the_resume(api: FakeApi) -> None:
    clock = Clock()
    api.put(CLUSTER_RUNTIMES, runtime())
    api.put(TRAIN_JOBS, train_job(suspend=True, activeDeadlineSeconds=60))
    api.fault = refusing("jobsets", "POST", lambda: error(500, "InternalError", "failed calling webhook"))
    async with controller(api, clock) as process:
        await eventually(lambda: "Suspended" in conditions(api))
        clock.now += datetime.timedelta(hours=1)
        change(api, TRAIN_JOBS, "trainjobs", "job", spec={"suspend": False})
        await eventually(lambda: conditions(api).get("Suspended") == ("False", "Resumed"))
        api.fault = None
        await eventually(lambda: api.find("jobsets", "job", "team"))
        await process.settle()
        assert "Failed" not in conditions(api)
        clock.now += datetime.timedelta(seconds=61)
        process.manager.queue.add(KEY)
        await eventually(lambda: conditions(api).get("Failed") == ("True", "DeadlineExceeded"))


async def test_the_retry_delay_grows_to_a_minute(api: FakeApi) -> None:
    api.put(TRAIN_JOBS, train_job())
    async with controller(api) as process:
        await process.settle()
        reconciler = process.manager._reconciler
        waits = [(await reconciler.reconcile(KEY)).requeue_after for _ in range(20)]
        assert all(wait is not None and wait <= 60 for wait in waits)
        assert max(wait or 0 for wait in waits) > 25
        assert len(messages(api)) == 1, "the same message is recorded once a minute"


async def test_a_change_of_a_runtime_reaches_only_the_jobs_that_name_it(api: FakeApi) -> None:
    api.put(TRAIN_JOBS, train_job("first", runtimeRef={"name": "one"}))
    api.put(TRAIN_JOBS, train_job("second", runtimeRef={"name": "two"}))
    async with controller(api) as process:
        await process.settle()
        assert process.manager.blocked() == {"TrainJobResourcesCreationFailed": (2, pytest.approx(0, abs=1e9))}
        added: list[Any] = []
        process.manager.queue.add = lambda key, **_: added.append(key) is None  # type: ignore[method-assign, assignment]
        api.put(CLUSTER_RUNTIMES, runtime("one"))
        await eventually(lambda: added)
        assert set(added) == {("team", "first")}


async def test_nothing_is_queued_by_a_process_that_does_not_lead(api: FakeApi) -> None:
    api.put(CLUSTER_RUNTIMES, runtime())
    process = Controller(api, Clock())
    tasks = [asyncio.create_task(informer.run()) for informer in process.cache.informers]
    await process.cache.wait_settled()
    for number in range(20):
        api.put(TRAIN_JOBS, train_job(f"job-{number}"))
    await eventually(lambda: len(process.cache.train_jobs.store) == 20)
    assert len(process.manager.queue) == 0
    assert process.manager.queue.delayed == 0
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await process.client.close()
    assert api.writes == []


async def test_no_state_is_kept_of_deleted_jobs(api: FakeApi) -> None:
    api.put(TRAIN_JOBS, train_job())
    async with controller(api) as process:
        await process.settle()
        assert process.manager.blocked()
        api.remove(TRAIN_JOBS, "team", "job")
        await eventually(lambda: not process.manager.blocked())
        reconciler, queue = process.manager._reconciler, process.manager.queue
        await eventually(lambda: not (reconciler._last_events or reconciler._backoffs or queue.delayed or len(queue)))


async def test_reports_of_progress_are_no_work(api: FakeApi) -> None:
    api.put(CLUSTER_RUNTIMES, runtime())
    api.put(TRAIN_JOBS, train_job())
    async with controller(api) as process:
        await process.settle()
        before = process.metrics.text().decode()
        change(api, TRAIN_JOBS, "trainjobs", "job", status={"trainerStatus": {"progressPercentage": 4}})
        await process.settle()
        counted = [line for line in before.splitlines() if line.startswith("workqueue_adds_total")]
        after = process.metrics.text().decode().splitlines()
        assert [line for line in after if line.startswith("workqueue_adds_total")] == counted


async def test_a_job_set_that_cannot_be_stopped_is_reported_and_stopped_once_it_can(api: FakeApi) -> None:
    api.put(CLUSTER_RUNTIMES, runtime())
    api.put(TRAIN_JOBS, train_job())
    async with controller(api) as process:
        await process.settle()
        api.fault = refusing("jobsets", "PATCH", lambda: error(500, "InternalError", "failed calling webhook"))
        change(api, TRAIN_JOBS, "trainjobs", "job", spec={"suspend": True})
        await eventually(lambda: conditions(api) == {"Suspended": ("True", "Suspended")})
        assert api.objects[JOB_SETS, "team", "job"]["spec"]["suspend"] is False
        api.fault = None
        await eventually(lambda: api.objects[JOB_SETS, "team", "job"]["spec"]["suspend"])


async def test_a_restart_with_many_jobs_leaves_the_loop_to_others_after_each_job(
    api: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lease is renewed, probes and webhooks are answered, however many jobs are looked at."""
    api.put(CLUSTER_RUNTIMES, runtime())
    for number in range(40):
        api.put(TRAIN_JOBS, train_job(f"job-{number}", suspend=True))
    turns = 0
    looked: list[int] = []

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async with controller(api) as process:
        await process.settle()
        reconciler = process.manager._reconciler
        reconcile = reconciler.reconcile

        async def noted(key: tuple[str, str]) -> Any:
            looked.append(turns)
            return await reconcile(key)

        monkeypatch.setattr(reconciler, "reconcile", noted)
        task = asyncio.create_task(others())
        for key in list(process.cache.train_jobs.store.keys()):
            process.manager.queue.add(key)
        await eventually(lambda: len(looked) >= 40)
        task.cancel()
    workers = process.manager._workers
    assert max(looked.count(turn) for turn in looked) <= workers
