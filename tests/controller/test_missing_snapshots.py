"""Jobs that upstream's v2.0 to v2.2 started have a JobSet and no snapshot: they get one."""

from __future__ import annotations

import json
from typing import Any

from tests.controller.harness import (
    CLUSTER_RUNTIMES,
    CONFIG_MAPS,
    JOB_SETS,
    TRAIN_JOBS,
    change,
    job_set,
    reconciled,
    refusing,
    runtime,
    settled,
    submit,
)
from tests.kube.fake_api import FakeApi


def unmark(api: FakeApi) -> None:
    """Remove from the JobSet what upstream's controller does not write."""
    body = job_set(api)
    api.put(JOB_SETS, {**body, "metadata": {**body["metadata"], "labels": {}, "annotations": {}}})


async def started_by_upstream(api: FakeApi, **spec: Any) -> None:
    """Leave a TrainJob with the JobSet that upstream's controller creates, and no snapshot."""
    submit(api, gang=False, **spec)
    await reconciled(api)
    unmark(api)
    api.lose(CONFIG_MAPS, "team", "job-runtime-snapshot")


def snapshot_of(api: FakeApi) -> dict[str, Any] | None:
    return api.find("configmaps", "job-runtime-snapshot", "team")


async def test_a_running_job_gets_the_runtime_as_it_is_at_takeover(api: FakeApi) -> None:
    await started_by_upstream(api)
    async with settled(api) as process:
        found = snapshot_of(api)
        assert found is not None
        assert found["metadata"]["ownerReferences"][0]["name"] == "job"
        assert "image:1" in json.dumps(found)
        writes = len(api.writes)
        process.manager.queue.add(("team", "job"))
        await process.settle()
        assert len(api.writes) == writes, "it is created once"


async def test_a_suspended_job_resumes_with_the_runtime_of_the_takeover(api: FakeApi) -> None:
    await started_by_upstream(api, suspend=True)
    async with settled(api) as process:
        assert snapshot_of(api) is not None
        api.put(CLUSTER_RUNTIMES, runtime(gang=False, image="image:2"))
        await process.settle()
        change(api, TRAIN_JOBS, "trainjobs", "job", spec={"suspend": False})
        await process.settle()
    assert job_set(api)["spec"]["suspend"] is False
    assert "image:1" in json.dumps(job_set(api))


async def test_a_snapshot_of_v2_3_stays(api: FakeApi) -> None:
    submit(api, gang=False)
    await reconciled(api)
    before = snapshot_of(api)
    unmark(api)
    api.put(CLUSTER_RUNTIMES, runtime(gang=False, image="image:2"))
    await reconciled(api)
    assert snapshot_of(api) == before


async def test_a_rejected_snapshot_does_not_keep_a_job_from_being_suspended(api: FakeApi) -> None:
    await started_by_upstream(api)

    api.fault = refusing("POST", "/configmaps", 403, "Forbidden", "exceeded quota")
    async with settled(api) as process:
        change(api, TRAIN_JOBS, "trainjobs", "job", spec={"suspend": True})
        await process.settle()
    assert job_set(api)["spec"]["suspend"] is True
    assert snapshot_of(api) is None


async def test_a_job_without_its_runtime_gets_the_snapshot_when_it_returns(api: FakeApi) -> None:
    await started_by_upstream(api)
    api.lose(CLUSTER_RUNTIMES, "", "torch")
    async with settled(api) as process:
        assert snapshot_of(api) is None
        api.put(CLUSTER_RUNTIMES, runtime(gang=False))
        process.manager.queue.add(("team", "job"))
        await process.settle()
        assert snapshot_of(api) is not None
