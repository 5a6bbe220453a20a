"""JobSets that run, end or are deleted while no leader can record them: their job does not run a second time."""

from __future__ import annotations

from typing import Any

import pytest
from aiohttp import web

from tests.controller.harness import JOB_SETS, Controller, conditions, controller, job_set, reconciled, submit
from tests.controller.test_recreation import complete, recreation, resume_changed, suspended
from tests.kube.fake_api import FakeApi, error, eventually
from trainyard.controller import reconcile


def no_status(fake: FakeApi, request: web.Request) -> web.StreamResponse | None:
    if request.method == "PATCH" and request.path.endswith("/trainjobs/job/status") and fake.of("jobsets"):
        return error(503, "ServiceUnavailable", "")
    return None


def created(api: FakeApi) -> list[Any]:
    """The ``suspend`` of every JobSet that was created."""
    return [body["spec"].get("suspend") for _, kind, path, body in api.log if (kind, path) == ("ADDED", JOB_SETS)]


async def test_a_recreated_job_set_has_no_pods_before_it_is_recorded(api: FakeApi) -> None:
    recorded: list[bool] = []

    def note(fake: FakeApi) -> None:
        if fake.writes[-1][0] == "PATCH" and "/jobsets/" in fake.writes[-1][1]:
            status = fake.of("trainjobs")[0]["status"]
            recorded.append(status["jobSet"] == {"uid": job_set(fake)["metadata"]["uid"]})

    async with controller(api, record_seconds=3600) as process:
        await suspended(api, process)
        api.after_write = note
        resume_changed(api)
        await process.settle()
    assert (created(api), recorded) == ([True, True], [True])
    assert (job_set(api)["spec"]["suspend"], recreation(api)) == (False, None)


async def test_a_recreated_job_set_that_was_never_recorded_has_never_run(api: FakeApi) -> None:
    """Killed after it is created; it is deleted before the next leader starts."""

    def no_record(fake: FakeApi, request: web.Request) -> web.StreamResponse | None:
        return no_status(fake, request) if len(created(fake)) > 1 else None

    async with controller(api) as process:
        await suspended(api, process)
        api.fault = no_record
        resume_changed(api)
        await eventually(lambda: len(created(api)) > 1)
        await process.settle()
        assert recreation(api)
        assert job_set(api)["spec"]["suspend"] is True
    api.fault = None
    api.remove(JOB_SETS, "team", "job")
    await reconciled(api)
    assert created(api) == [True, True, True]
    assert (job_set(api)["spec"]["suspend"], recreation(api)) == (False, None)
    assert "Failed" not in conditions(api)


async def test_a_recreated_job_set_that_ended_and_is_gone_is_missing(api: FakeApi) -> None:
    async with controller(api) as process:
        await suspended(api, process)
        resume_changed(api)
        await eventually(lambda: len(created(api)) > 1 and job_set(api)["spec"]["suspend"] is False)
    complete(api)
    api.remove(JOB_SETS, "team", "job")
    await reconciled(api)
    assert (len(created(api)), conditions(api)["Failed"]) == (2, ("True", "JobSetMissing"))


async def test_a_record_that_is_rejected_is_retried_and_the_job_set_resumes(api: FakeApi) -> None:
    refused: list[str] = []

    def once(fake: FakeApi, request: web.Request) -> web.StreamResponse | None:
        if len(created(fake)) > 1 and len(refused) < 3 and (answer := no_status(fake, request)):
            refused.append(request.path)
            return answer
        return None

    async with controller(api) as process:
        await suspended(api, process)
        api.fault = once
        resume_changed(api)
        await eventually(lambda: len(refused) == 3)
        await eventually(lambda: job_set(api)["spec"]["suspend"] is False)
        await process.settle()
    assert (len(created(api)), recreation(api)) == (2, None)


@pytest.fixture(params=[True, False], ids=["labeled", "unlabeled"])
async def unrecorded(api: FakeApi, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Return a JobSet that the leader could not record before it was killed, and that lost its label or not."""
    monkeypatch.setattr(reconcile, "_UNLABELED_SECONDS", 0.1)
    submit(api, gang=False)
    api.fault = no_status
    async with controller(api) as process:
        await eventually(lambda: api.of("jobsets"))
        await process.settle()
    api.fault = None
    assert not api.of("trainjobs")[0].get("status")
    body = job_set(api)
    return body if request.param else {**body, "metadata": {**body["metadata"], "labels": {}}}


def leaving(body: dict[str, Any]) -> dict[str, Any]:
    return {**body, "metadata": {**body["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}}


async def test_a_job_set_that_is_being_deleted_unrecorded_may_have_run_and_is_missing_when_it_is_gone(
    api: FakeApi, unrecorded: dict[str, Any]
) -> None:
    api.put(JOB_SETS, leaving(unrecorded))
    async with controller(api) as process:
        uid = unrecorded["metadata"]["uid"]
        await eventually(lambda: (api.of("trainjobs")[0].get("status") or {}).get("jobSet") == {"uid": uid})
        api.remove(JOB_SETS, "team", "job")
        await eventually(lambda: "Failed" in conditions(api))
        await process.settle()
    assert (len(created(api)), conditions(api)["Failed"]) == (1, ("True", "JobSetMissing"))


async def test_a_job_set_that_ended_and_is_being_deleted_unrecorded_is_the_end_of_its_job(
    api: FakeApi, unrecorded: dict[str, Any]
) -> None:
    api.put(JOB_SETS, leaving(unrecorded))
    complete(api)
    async with controller(api) as process:
        await eventually(lambda: "Complete" in conditions(api))
        api.remove(JOB_SETS, "team", "job")
        await process.settle()
    assert (len(created(api)), set(conditions(api))) == (1, {"Complete"})


def arrive_late(api: FakeApi, body: dict[str, Any], **metadata: Any) -> None:
    """Execute a create of a JobSet that a half-open connection had held back."""
    kept = {name: value for name, value in body["metadata"].items() if name not in ("uid", "resourceVersion")}
    api.put(JOB_SETS, {**body, "metadata": {**kept, **metadata}, "status": {}})


async def run_to_the_end(api: FakeApi, process: Controller) -> dict[str, Any]:
    """Return the JobSet of a job that the controller ran to its completion, as it was before it completed."""
    await eventually(lambda: api.of("jobsets"))
    await process.settle()
    first = job_set(api)
    complete(api)
    await eventually(lambda: "Complete" in conditions(api))
    await process.settle()
    return first


async def test_a_create_that_arrives_after_the_end_is_deleted_and_the_record_stays(api: FakeApi) -> None:
    submit(api, gang=False)
    async with controller(api) as process:
        first = await run_to_the_end(api, process)
        api.remove(JOB_SETS, "team", "job")
        await process.settle()
        ended = api.of("trainjobs")[0]["status"]
        arrive_late(api, first)
        await eventually(lambda: not api.of("jobsets"))
        await process.settle()
    assert api.of("trainjobs")[0]["status"] == ended


async def test_a_job_set_of_a_finished_job_that_runs_when_a_leader_starts_is_deleted(api: FakeApi) -> None:
    """As v2.1 of Kubeflow Trainer leaves them, which creates the JobSet of a completed job again."""
    submit(api, gang=False)
    async with controller(api) as process:
        first = await run_to_the_end(api, process)
    api.remove(JOB_SETS, "team", "job")
    arrive_late(api, first, labels={}, annotations={})
    async with controller(api) as process:
        await eventually(lambda: not api.of("jobsets"))
        await process.settle()
    assert set(conditions(api)) == {"Complete"}


async def test_a_foreign_job_set_with_the_name_of_a_finished_job_is_left_alone(api: FakeApi) -> None:
    submit(api, gang=False)
    async with controller(api) as process:
        first = await run_to_the_end(api, process)
        api.remove(JOB_SETS, "team", "job")
        arrive_late(api, first, ownerReferences=[])
        await process.settle()
    assert job_set(api)["spec"]["suspend"] is False


async def test_a_create_that_arrives_after_the_only_run_was_deleted_ends_the_job_and_is_deleted(api: FakeApi) -> None:
    submit(api, gang=False)
    async with controller(api) as process:
        await eventually(lambda: api.of("jobsets"))
        await process.settle()
        first = job_set(api)
        record = {"uid": first["metadata"]["uid"]}
        await eventually(lambda: (api.of("trainjobs")[0].get("status") or {}).get("jobSet") == record)
    api.remove(JOB_SETS, "team", "job")
    arrive_late(api, first)
    async with controller(api) as process:
        await eventually(lambda: not api.of("jobsets"))
        await process.settle()
    assert conditions(api)["Failed"] == ("True", "JobSetMissing")
    assert api.of("trainjobs")[0]["status"]["jobSet"] == record
