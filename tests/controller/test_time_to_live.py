"""A job whose JobSet has a time to live: its end is recorded first, then the JobSet goes, and nothing runs again."""

from __future__ import annotations

from typing import Any

import pytest

from tests.controller.harness import (
    CLUSTER_RUNTIMES,
    JOB_SETS,
    TRAIN_JOBS,
    Clock,
    change,
    conditions,
    controller,
    job_set_status,
    reconciled,
    runtime,
    settled,
    train_job,
)
from tests.kube.fake_api import FakeApi, error
from tests.kube.time_to_live import TimeToLive
from trainyard.controller.job_ownership import TRAIN_JOB_LABEL

SECONDS = 60
LONG = 3600.0
ENDS = [("Completed", "Complete", "AllJobsCompleted"), ("Failed", "Failed", "FailedJobs")]


def runtime_with_time_to_live(*, gang: bool = False) -> dict[str, Any]:
    body = runtime(gang=gang)
    body["spec"]["template"]["spec"]["ttlSecondsAfterFinished"] = SECONDS
    return body


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def life(api: FakeApi, clock: Clock) -> TimeToLive:
    """JobSet's controller, before the only TrainJob has run."""
    api.put(CLUSTER_RUNTIMES, runtime_with_time_to_live())
    api.put(TRAIN_JOBS, train_job())
    return TimeToLive(api, clock)


def end(api: FakeApi, kind: str = "Completed", reason: str = "AllJobsCompleted") -> None:
    change(api, JOB_SETS, "jobsets", "job", status=job_set_status(kind, reason, "over"))


def created(api: FakeApi) -> int:
    """JobSets that were ever created."""
    return sum(kind == "ADDED" and path == JOB_SETS for _, kind, path, _ in api.log)


def time_to_live(api: FakeApi) -> Any:
    body = api.find("jobsets", "job", "team")
    return body and body["spec"].get("ttlSecondsAfterFinished")


async def run_to_the_end(api: FakeApi, clock: Clock) -> None:
    async with settled(api, clock) as process:
        end(api)
        await process.settle()


async def never_again(api: FakeApi, clock: Clock) -> None:
    """Check that neither this nor another leader creates the JobSet again."""
    for _ in range(2):
        async with controller(api, clock) as process:
            process.manager.queue.add(("team", "job"))
            await process.settle()
    assert (created(api), api.of("jobsets")) == (1, [])


@pytest.mark.parametrize(("theirs", "ours", "reason"), ENDS, ids=["completed", "failed"])
async def test_the_end_is_recorded_before_the_time_to_live_starts(
    api: FakeApi, clock: Clock, life: TimeToLive, theirs: str, ours: str, reason: str
) -> None:
    order: list[str] = []

    def note(fake: FakeApi) -> None:
        if ours in conditions(fake):
            order.append("recorded")
        if time_to_live(fake) is not None:
            order.append("time to live")

    async with settled(api, clock) as process:
        life.pass_time(LONG)
        assert time_to_live(api) is None
        api.after_write = note
        end(api, theirs, reason)
        await process.settle()
        assert (order[0], time_to_live(api)) == ("recorded", SECONDS)
        life.pass_time(SECONDS)
        assert len(life.deleted) == 1
        await process.settle()
    assert conditions(api)[ours] == ("True", reason)
    await never_again(api, clock)
    assert set(conditions(api)) == {ours}


async def test_a_job_set_that_goes_while_the_controller_is_down_is_not_made_again(
    api: FakeApi, clock: Clock, life: TimeToLive
) -> None:
    await run_to_the_end(api, clock)
    life.pass_time(LONG)
    assert len(life.deleted) == 1
    await never_again(api, clock)
    assert conditions(api) == {"Complete": ("True", "AllJobsCompleted")}


async def test_a_job_set_that_ends_while_the_controller_is_down_waits_for_its_record(
    api: FakeApi, clock: Clock, life: TimeToLive
) -> None:
    await reconciled(api, clock)
    end(api)
    life.pass_time(LONG)
    assert life.deleted == []
    async with settled(api, clock) as process:
        assert (conditions(api)["Complete"][0], time_to_live(api)) == ("True", SECONDS)
        life.pass_time(0)
        await process.settle()
    await never_again(api, clock)
    assert set(conditions(api)) == {"Complete"}


async def test_killed_between_the_record_and_the_time_to_live_the_next_leader_sets_it(
    api: FakeApi, clock: Clock, life: TimeToLive
) -> None:
    def refuse(fake: FakeApi, request: Any) -> Any:
        late = request.method == "PATCH" and "/jobsets/" in request.path
        return error(503, "ServiceUnavailable", "") if late else None

    async with settled(api, clock) as process:
        api.fault = refuse
        end(api)
        process.manager.queue.add(("team", "job"))
        await process.settle()
        assert (conditions(api)["Complete"][0], time_to_live(api)) == ("True", None)
    api.fault = None
    await reconciled(api, clock)
    life.pass_time(LONG)
    assert len(life.deleted) == 1
    await never_again(api, clock)


async def test_a_job_set_that_is_going_when_a_leader_starts_is_waited_for(
    api: FakeApi, clock: Clock, life: TimeToLive
) -> None:
    await run_to_the_end(api, clock)
    life.expire(LONG)
    async with settled(api, clock) as process:
        life.collect()
        await process.settle()
    await never_again(api, clock)
    assert conditions(api) == {"Complete": ("True", "AllJobsCompleted")}


async def test_upstreams_job_set_that_went_before_its_end_was_recorded_fails_its_job(
    api: FakeApi, clock: Clock, life: TimeToLive
) -> None:
    """Upstream's controller leaves the time to live in the spec: only the pod counts tell that it ran."""
    await reconciled(api, clock)
    body, job = api.find("jobsets", "job", "team"), api.find("trainjobs", "job", "team")
    assert body is not None
    assert job is not None
    labels = {name: value for name, value in body["metadata"]["labels"].items() if name != TRAIN_JOB_LABEL}
    upstreams = {**body, "metadata": {**body["metadata"], "labels": labels, "annotations": {}}}
    api.put(JOB_SETS, {**upstreams, "spec": {**body["spec"], "ttlSecondsAfterFinished": SECONDS}})
    counts = {"name": "node", "ready": 1, "succeeded": 0, "failed": 0, "active": 1, "suspended": 0}
    api.put(TRAIN_JOBS, {**job, "status": {"jobsStatus": [counts]}})
    end(api)
    life.pass_time(LONG)
    assert len(life.deleted) == 1
    await never_again(api, clock)
    assert conditions(api) == {"Failed": ("True", "JobSetMissing")}
