"""A suspended job whose patch changes what JobSet freezes gets a new JobSet, or resumes unchanged with an event."""

from __future__ import annotations

import asyncio
import copy

import pytest
from aiohttp import web

from tests.controller.harness import (
    JOB_SETS,
    TRAIN_JOBS,
    Clock,
    Controller,
    change,
    conditions,
    controller,
    job_set,
    job_set_status,
    reconciled,
    settled,
    submit,
)
from tests.kube.fake_api import FakeApi, error, eventually
from tests.render.builders import patch, pod_patch
from trainyard.kube.api_errors import ApiError
from trainyard.kube.training_kinds import JOB_SETS as JOB_SET_RESOURCE

AFFINITY = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}}
SUSPENDED = {
    "type": "Suspended",
    "status": "True",
    "reason": "SuspendedJobs",
    "message": "jobset is suspended",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
}
PATCHES = [patch(pod_patch(affinity=AFFINITY))]


def affinity(api: FakeApi) -> object:
    pod = job_set(api)["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    return pod.get("affinity")


async def test_a_frozen_field_that_changed_recreates_the_job_set_with_a_recorded_reason(api: FakeApi) -> None:
    recorded: list[str] = []

    def record(fake: FakeApi) -> None:
        if fake.writes[-1][0] == "DELETE" and "/jobsets/" in fake.writes[-1][1]:
            status = fake.of("trainjobs")[0]["status"]
            recorded.append(status["jobSet"].get("remake"))

    submit(api, gang=False, suspend=True)
    async with settled(api) as process:
        report_suspended(api)
        first = job_set(api)["metadata"]["uid"]
        api.after_write = record
        change(api, TRAIN_JOBS, "trainjobs", "job", spec={"suspend": False, "runtimePatches": PATCHES})
        await process.settle()
    (reason,) = recorded
    assert "immutable" in reason
    assert (job_set(api)["metadata"]["uid"] != first, affinity(api)) == (True, AFFINITY)
    assert job_set(api)["spec"]["suspend"] is False
    assert "Failed" not in conditions(api)


async def test_a_frozen_field_that_changed_waits_while_pods_are_active(api: FakeApi) -> None:
    submit(api, gang=False, suspend=True)
    async with settled(api) as process:
        first = job_set(api)["metadata"]["uid"]
        counts = {"name": "node", "ready": 0, "succeeded": 0, "failed": 0, "active": 1, "suspended": 0}
        change(api, JOB_SETS, "jobsets", "job", status={"replicatedJobsStatus": [counts]})
        change(api, TRAIN_JOBS, "trainjobs", "job", spec={"suspend": False, "runtimePatches": PATCHES})
        await process.settle()
    assert (job_set(api)["metadata"]["uid"], affinity(api)) == (first, None)
    assert job_set(api)["spec"]["suspend"] is False
    (event,) = api.of("events")
    assert "resumes unchanged" in event["message"]


async def test_a_job_set_is_recreated_only_after_its_controller_has_suspended_it(api: FakeApi) -> None:
    """Pods may run although no status says so: JobSet's controller is behind."""
    submit(api, gang=False)
    async with controller(api) as process:
        await eventually(lambda: api.of("jobsets"))
        await process.settle()
        first = job_set(api)["metadata"]["uid"]
        change(api, TRAIN_JOBS, "trainjobs", "job", spec={"suspend": True})
        await eventually(lambda: job_set(api)["spec"]["suspend"])
        resume_changed(api)
        await eventually(process.manager.blocked)
        await process.events.flush()
        assert (job_set(api)["metadata"]["uid"], job_set(api)["spec"]["suspend"]) == (first, True)
        assert any("when JobSet's controller has suspended it" in event["message"] for event in api.of("events"))
        report_suspended(api)
        await eventually(lambda: api.of("jobsets") and not job_set(api)["spec"]["suspend"])
    assert affinity(api) == AFFINITY
    assert job_set(api)["metadata"]["uid"] != first


async def test_the_server_of_these_tests_rejects_changes_of_what_jobset_freezes(api: FakeApi) -> None:
    async with controller(api) as process:
        await suspended(api, process)
        jobs = copy.deepcopy(job_set(api)["spec"]["replicatedJobs"])
        jobs[0]["template"]["spec"]["template"]["spec"]["affinity"] = AFFINITY
        uid = job_set(api)["metadata"]["uid"]
        with pytest.raises(ApiError) as caught:
            await process.client.merge_patch(
                JOB_SET_RESOURCE, "job", {"spec": {"replicatedJobs": jobs}}, namespace="team", uid=uid
            )
    assert caught.value.status == 422
    assert "spec.replicatedJobs" in caught.value.message


def complete(api: FakeApi) -> None:
    """End the JobSet although it is suspended: its pods exited with 0 on SIGTERM."""
    change(api, JOB_SETS, "jobsets", "job", status=job_set_status("Completed", "AllJobsCompleted", "done"))


def report_suspended(api: FakeApi) -> None:
    """Report what JobSet's controller does when it has suspended the Jobs."""
    change(api, JOB_SETS, "jobsets", "job", status={"conditions": [SUSPENDED]})


def resume_changed(api: FakeApi) -> None:
    change(api, TRAIN_JOBS, "trainjobs", "job", spec={"suspend": False, "runtimePatches": PATCHES})


def recreation(api: FakeApi) -> object:
    return (api.of("trainjobs")[0].get("status") or {}).get("jobSet", {}).get("remake")


async def suspended(api: FakeApi, process: Controller) -> str:
    """Start a suspended job; return the uid of its JobSet."""
    submit(api, gang=False, suspend=True)
    await process.settle()
    report_suspended(api)
    await process.settle()
    return str(job_set(api)["metadata"]["uid"])


async def test_a_job_set_that_completed_while_its_watch_lags_is_not_recreated(api: FakeApi) -> None:
    async with controller(api) as process:
        first = await suspended(api, process)
        api.freeze_watches(JOB_SETS)
        complete(api)
        resume_changed(api)
        await eventually(lambda: "Complete" in conditions(api))
        api.thaw_watches()
        await process.settle()
    assert (job_set(api)["metadata"]["uid"], recreation(api)) == (first, None)


async def test_a_job_set_that_completes_before_its_deletion_is_kept(api: FakeApi) -> None:
    def completing(fake: FakeApi, request: web.Request) -> web.StreamResponse | None:
        if request.method == "DELETE" and "/jobsets/" in request.path:
            complete(api)
        return None

    async with controller(api) as process:
        first = await suspended(api, process)
        api.freeze_watches(JOB_SETS)
        api.fault = completing
        resume_changed(api)
        await eventually(lambda: "Complete" in conditions(api))
        api.thaw_watches()
        await process.settle()
    assert (job_set(api)["metadata"]["uid"], recreation(api)) == (first, None)


async def test_the_record_of_a_recreation_does_not_hide_that_the_job_set_ended(api: FakeApi) -> None:
    """Killed after the record; the JobSet ends; the next leader is killed at its first status write."""
    reached = asyncio.Event()

    def no_delete(fake: FakeApi, request: web.Request) -> web.StreamResponse | None:
        return error(500, "InternalError", "etcdserver: leader changed") if request.method == "DELETE" else None

    def no_status(fake: FakeApi, request: web.Request) -> web.StreamResponse | None:
        if request.method == "PATCH" and request.path.endswith("/status"):
            reached.set()
            return error(500, "InternalError", "etcdserver: leader changed")
        return None

    async with controller(api) as process:
        first = await suspended(api, process)
        api.fault = no_delete
        resume_changed(api)
        await eventually(lambda: recreation(api))
    complete(api)
    api.fault = no_status
    second = Controller(api, Clock())
    await second.start()
    await asyncio.wait_for(reached.wait(), 5)
    await second.kill()
    api.fault = None
    await reconciled(api)
    assert job_set(api)["metadata"]["uid"] == first
    assert (conditions(api)["Complete"], recreation(api)) == (("True", "AllJobsCompleted"), None)


async def test_the_record_of_a_recreation_is_dropped_when_the_job_set_runs(api: FakeApi) -> None:
    """Killed after the record; another version of the controller resumes the JobSet."""

    def no_delete(fake: FakeApi, request: web.Request) -> web.StreamResponse | None:
        return error(500, "InternalError", "etcdserver: leader changed") if request.method == "DELETE" else None

    async with controller(api) as process:
        first = await suspended(api, process)
        api.fault = no_delete
        resume_changed(api)
        await eventually(lambda: recreation(api))
    api.fault = None
    change(api, JOB_SETS, "jobsets", "job", spec={"suspend": False})
    await reconciled(api)
    assert (job_set(api)["metadata"]["uid"], recreation(api)) == (first, None)
