"""Submitting a TrainJob waits for what the cluster does by itself, and for nothing else."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from aiohttp import web

from tests.kube.fake_api import FakeApi, error, eventually, serving
from trainyard.cluster_state.train_jobs import run_train_job
from trainyard.errors import TrainyardError

QUOTAS = "/api/v1/resourcequotas"
JOBS = "/apis/trainer.kubeflow.org/v1alpha1/trainjobs"
COUNT = "count/trainjobs.trainer.kubeflow.org"
JOB = {
    "apiVersion": "trainer.kubeflow.org/v1alpha1",
    "kind": "TrainJob",
    "metadata": {"name": "smoke", "namespace": "vision"},
    "spec": {"runtimeRef": {"name": "plain"}},
    "status": {"conditions": [{"type": "Complete", "status": "True", "reason": "AllJobsCompleted"}]},
}


def quota(**used: str) -> dict[str, Any]:
    return {
        "metadata": {"name": "tenant", "namespace": "vision"},
        "spec": {"hard": {COUNT: "10"}},
        "status": {"used": used},
    }


def refusing(message: str, while_uncounted: bool) -> Any:
    def fault(api: FakeApi, request: web.Request) -> web.StreamResponse | None:
        body = api.find("resourcequotas", "tenant", "vision")
        counted = bool(body and body["status"]["used"])
        if request.method == "POST" and not (while_uncounted and counted):
            return error(403, "Forbidden", message)
        return None

    return fault


async def submit(api: FakeApi, reports: list[str], patience: float = 5) -> bool:
    async with api.client() as client:
        _, submitted = await run_train_job(client, JOB, patience=patience, report=reports.append)
    return submitted


def test_a_quota_that_is_not_counted_yet_is_waited_for() -> None:
    async def scenario() -> list[str]:
        reports: list[str] = []
        async with serving(FakeApi()) as api:
            api.put(QUOTAS, quota())
            api.fault = refusing(f"status unknown for quota: tenant, resources: {COUNT}", while_uncounted=True)
            running = asyncio.create_task(submit(api, reports))
            await eventually(lambda: any("watch=true" in path for _, path in api.requests))
            assert api.find("trainjobs", "smoke", "vision") is None
            api.put(QUOTAS, quota(**{COUNT: "0"}))
            stored = await eventually(lambda: api.find("trainjobs", "smoke", "vision"))
            api.put(JOBS, {**stored, "status": JOB["status"]})
            assert await running
        return reports

    assert "waiting for the first count of its namespace's quota" in asyncio.run(scenario())


def test_any_other_refusal_is_reported_at_once() -> None:
    async def scenario() -> None:
        async with serving(FakeApi()) as api:
            api.fault = refusing("exceeded quota: tenant", while_uncounted=False)
            await submit(api, [])

    with pytest.raises(TrainyardError, match=r"TrainJob vision/smoke was rejected: .*exceeded quota"):
        asyncio.run(scenario())


def test_a_quota_that_is_never_counted_ends_the_patience() -> None:
    async def scenario() -> None:
        async with serving(FakeApi()) as api:
            api.put(QUOTAS, quota())
            api.fault = refusing("status unknown for quota: tenant", while_uncounted=True)
            await submit(api, [], patience=0.3)

    with pytest.raises(TrainyardError, match=r"did not finish within 0\.3 s: the quota of its namespace"):
        asyncio.run(scenario())
