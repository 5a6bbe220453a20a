"""Reports reach the TrainJob, however many there are, and never one of the same name."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import pytest

from tests.controller.harness import TRAIN_JOBS, Body, existing, train_job
from tests.kube.fake_api import FakeApi, error
from trainyard.controller.trainer_status.writer import StatusWriter
from trainyard.kube.api_errors import ApiError

INTERVAL = 0.05


@pytest.fixture
async def writer(api: FakeApi) -> AsyncIterator[StatusWriter]:
    async with api.client(patience=0) as client:
        found = StatusWriter(client, interval=INTERVAL)
        yield found
        await found.close()


def progress(percent: int) -> Body:
    return {"progressPercentage": percent, "lastUpdatedTime": "2026-01-01T00:00:00Z"}


def stored(api: FakeApi) -> Body | None:
    body = existing(api, "trainjobs", "job", "team")
    found: Body | None = (body.get("status") or {}).get("trainerStatus")
    return found


async def test_a_report_is_in_the_train_job_when_it_is_answered(api: FakeApi, writer: StatusWriter) -> None:
    job = api.put(TRAIN_JOBS, {**train_job(), "status": {"conditions": []}})
    await writer.write(job, progress(5))
    assert stored(api) == progress(5)
    assert api.find("trainjobs", "job", "team")["status"]["conditions"] == []  # type: ignore[index]
    assert api.requests[-1][1].endswith("/trainjobs/job/status?fieldManager=trainer-status&force=true")


async def test_what_a_report_no_longer_says_is_removed_and_what_others_wrote_is_not(
    api: FakeApi, writer: StatusWriter
) -> None:
    job = api.put(TRAIN_JOBS, {**train_job(), "status": {"jobSet": {"uid": "x"}, "trainerStatus": {"theirs": 1}}})
    await writer.write(job, {**progress(5), "estimatedRemainingSeconds": 60})
    await writer.write(job, progress(6))
    assert stored(api) == {"theirs": 1, **progress(6)}
    assert api.find("trainjobs", "job", "team")["status"]["jobSet"] == {"uid": "x"}  # type: ignore[index]


async def test_a_thousand_reports_are_two_writes_and_the_last_one_counts(api: FakeApi, writer: StatusWriter) -> None:
    job = api.put(TRAIN_JOBS, train_job())
    await asyncio.gather(*(writer.write(job, progress(number % 100)) for number in range(1000)))
    assert len(api.writes) == 1
    await writer.write(job, progress(100))
    assert len(api.writes) == 2
    assert stored(api) == progress(100)


@pytest.mark.slow
async def test_a_job_is_written_once_a_second(api: FakeApi) -> None:
    job = api.put(TRAIN_JOBS, train_job())
    async with api.client(patience=0) as client:
        found = StatusWriter(client)
        started = time.monotonic()
        await found.write(job, progress(1))
        await asyncio.gather(*(found.write(job, progress(number)) for number in (2, 3)))
        took = time.monotonic() - started
        await found.close()
    assert took >= 1
    assert len(api.writes) == 2
    assert stored(api) == progress(3)


async def test_nothing_is_kept_of_a_job_that_is_silent(api: FakeApi, writer: StatusWriter) -> None:
    job = api.put(TRAIN_JOBS, train_job())
    await writer.write(job, progress(1))
    await asyncio.gather(*writer._tasks.values())
    assert not writer._tasks
    assert not writer._pending


async def test_a_later_train_job_of_the_same_name_gets_nothing(api: FakeApi, writer: StatusWriter) -> None:
    job = api.put(TRAIN_JOBS, train_job())
    api.remove(TRAIN_JOBS, "team", "job")
    api.put(TRAIN_JOBS, train_job())
    with pytest.raises(ApiError) as refused:
        await writer.write(job, progress(1))
    assert refused.value.not_found
    assert stored(api) is None


async def test_a_job_that_changes_meanwhile_gets_its_report(api: FakeApi, writer: StatusWriter) -> None:
    job = api.put(TRAIN_JOBS, train_job())
    api.put(TRAIN_JOBS, train_job(suspend=True))
    await writer.write(job, progress(1))
    body = existing(api, "trainjobs", "job", "team")
    assert (body["spec"]["suspend"], body["status"]) == (True, {"trainerStatus": progress(1)})


async def test_a_failure_reaches_the_sender_and_ends_nothing(api: FakeApi, writer: StatusWriter) -> None:
    job = api.put(TRAIN_JOBS, train_job())
    api.fault = lambda api, request: error(500, "InternalError", "etcd is away")
    with pytest.raises(ApiError, match="etcd is away"):
        await writer.write(job, progress(1))
    api.fault = None
    await writer.write(job, progress(2))
    assert stored(api) == progress(2)


async def test_closing_answers_who_waits(api: FakeApi, writer: StatusWriter) -> None:
    job = api.put(TRAIN_JOBS, train_job())
    await writer.write(job, progress(1))
    waiting = asyncio.ensure_future(writer.write(job, progress(2)))
    await asyncio.sleep(0)
    await writer.close()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert stored(api) == progress(1)
