"""A runtime that no longer matches its schema blocks only the jobs without a snapshot of it."""

from __future__ import annotations

from typing import Any

from tests.controller.harness import (
    CLUSTER_RUNTIMES,
    TRAIN_JOBS,
    change,
    conditions,
    controller,
    refusing,
    runtime,
    settled,
    submit,
    train_job,
)
from tests.kube.fake_api import FakeApi, eventually


def invalidate(api: FakeApi) -> None:
    """Edit the runtime as a CRD without bounds admits it."""
    change(api, CLUSTER_RUNTIMES, "clustertrainingruntimes", "torch", "", spec={"mlPolicy": {"numNodes": 0}})


def job_set(api: FakeApi) -> dict[str, Any] | None:
    return api.find("jobsets", "job", "team")


async def test_a_job_resumes_from_its_snapshot(api: FakeApi) -> None:
    submit(api, suspend=True)
    async with settled(api) as process:
        invalidate(api)
        await process.settle()
        change(api, TRAIN_JOBS, "trainjobs", "job", spec={"suspend": False})
        await eventually(lambda: not (job_set(api) or {})["spec"]["suspend"])


async def test_a_job_set_that_was_rejected_is_created_from_the_snapshot(api: FakeApi) -> None:
    api.put(CLUSTER_RUNTIMES, runtime())
    api.fault = refusing("POST", "/jobsets", 403, "Forbidden", "exceeded quota")
    api.put(TRAIN_JOBS, train_job())
    async with controller(api) as process:
        await eventually(lambda: process.manager.blocked())
        invalidate(api)
        api.fault = None
        await eventually(lambda: job_set(api))


async def test_a_job_without_a_snapshot_reports_the_runtime(api: FakeApi) -> None:
    api.put(CLUSTER_RUNTIMES, runtime())
    invalidate(api)
    api.put(TRAIN_JOBS, train_job())
    async with controller(api) as process:
        await eventually(lambda: process.manager.blocked())
        await process.events.flush()
        (event,) = api.of("events")
        assert "spec.mlPolicy.numNodes" in event["message"]
        assert job_set(api) is None


async def test_a_job_of_a_newer_version_goes_on_and_is_stopped_although_its_runtimes_kind_is_unknown(
    api: FakeApi,
) -> None:
    submit(api, gang=False)
    async with settled(api) as process:
        unknown = {"runtimeRef": {"name": "torch", "kind": "NodeRuntime"}, "suspend": True}
        change(api, TRAIN_JOBS, "trainjobs", "job", spec=unknown)
        await eventually(lambda: api.of("jobsets")[0]["spec"]["suspend"])
        change(api, TRAIN_JOBS, "trainjobs", "job", spec={"suspend": False})
        await eventually(process.manager.blocked)
        await process.events.flush()
    assert "Failed" not in conditions(api)
    assert any("NodeRuntime" in event["message"] for event in api.of("events"))
