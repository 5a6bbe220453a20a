"""A suspended job whose patch changes what JobSet freezes gets a new JobSet, or resumes unchanged with an event."""

from __future__ import annotations

from typing import Any

from tests.controller.harness import (
    CLUSTER_RUNTIMES,
    JOB_SETS,
    TRAIN_JOBS,
    change,
    conditions,
    controller,
    runtime,
    train_job,
)
from tests.kube.fake_api import FakeApi

AFFINITY = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}}
PATCHES = [
    {
        "manager": "acme.io/team",
        "trainingRuntimeSpec": {
            "template": {
                "spec": {
                    "replicatedJobs": [
                        {"name": "node", "template": {"spec": {"template": {"spec": {"affinity": AFFINITY}}}}}
                    ]
                }
            }
        },
    }
]


def job_set(api: FakeApi) -> dict[str, Any]:
    found = api.find("jobsets", "job", "team")
    assert found is not None
    return found


def affinity(api: FakeApi) -> object:
    pod = job_set(api)["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    return pod.get("affinity")


async def test_a_frozen_field_that_changed_recreates_the_job_set_with_a_recorded_reason(api: FakeApi) -> None:
    recorded: list[str] = []

    def record(fake: FakeApi) -> None:
        if fake.writes[-1][0] == "DELETE" and "/jobsets/" in fake.writes[-1][1]:
            status = fake.of("trainjobs")[0]["status"]
            recorded.append(status["jobSet"].get("remake"))

    api.put(CLUSTER_RUNTIMES, runtime(gang=False))
    api.put(TRAIN_JOBS, train_job(suspend=True))
    async with controller(api) as process:
        await process.settle()
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
    api.put(CLUSTER_RUNTIMES, runtime(gang=False))
    api.put(TRAIN_JOBS, train_job(suspend=True))
    async with controller(api) as process:
        await process.settle()
        first = job_set(api)["metadata"]["uid"]
        counts = {"name": "node", "ready": 0, "succeeded": 0, "failed": 0, "active": 1, "suspended": 0}
        change(api, JOB_SETS, "jobsets", "job", status={"replicatedJobsStatus": [counts]})
        change(api, TRAIN_JOBS, "trainjobs", "job", spec={"suspend": False, "runtimePatches": PATCHES})
        await process.settle()
    assert (job_set(api)["metadata"]["uid"], affinity(api)) == (first, None)
    assert job_set(api)["spec"]["suspend"] is False
    (event,) = api.of("events")
    assert "resumes unchanged" in event["message"]
