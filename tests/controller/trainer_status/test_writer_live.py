"""What the writer relies on, seen on a real API server."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from tests.compatibility import servers
from tests.controller.harness import Body, train_job
from trainyard.api.crds import build
from trainyard.controller.resources import FIELD_MANAGER
from trainyard.controller.trainer_status.writer import StatusWriter
from trainyard.kube.api_errors import ApiError
from trainyard.kube.client import Client
from trainyard.kube.kinds import NAMESPACES
from trainyard.kube.resource import Object
from trainyard.kube.training_kinds import TRAIN_JOBS

pytestmark = pytest.mark.cluster

TIME = "2026-01-01T00:00:00Z"
FULL = {
    "progressPercentage": 42,
    "estimatedRemainingSeconds": 120,
    "metrics": [{"name": "loss", "value": "0.5"}],
    "lastUpdatedTime": TIME,
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[servers.Server]:
    with servers.api_server(tmp_path_factory.mktemp("progress")) as found:
        asyncio.run(prepare(found))
        yield found


async def prepare(server: servers.Server) -> None:
    async with server.client() as client:
        jobset = next(each for each in servers.job_definitions() if each["spec"]["group"] == "jobset.x-k8s.io")
        await servers.install(client, [each for each in build(jobset) if each["spec"]["names"]["kind"] == "TrainJob"])
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}}
        await client.apply(NAMESPACES, namespace, field_manager="test")


async def made(client: Client) -> Object:
    await client.delete(TRAIN_JOBS, "job", namespace="team")
    return await client.create(TRAIN_JOBS, train_job())


async def status(client: Client) -> Body:
    found: Body = (await client.get(TRAIN_JOBS, "job", namespace="team")).get("status") or {}
    return found


async def test_a_report_replaces_the_one_before_and_nothing_else(server: servers.Server) -> None:
    async with server.client() as client:
        job = await made(client)
        writer = StatusWriter(client, interval=0.01)
        await writer.write(job, FULL)
        assert await status(client) == {"trainerStatus": FULL}
        counts = {"name": "node", "ready": 1, "succeeded": 0, "failed": 0, "active": 1, "suspended": 0}
        await patch(client, job, {"jobsStatus": [counts]})
        await writer.write(job, {"lastUpdatedTime": TIME})
        assert await status(client) == {"trainerStatus": {"lastUpdatedTime": TIME}, "jobsStatus": [counts]}
        await patch(client, job, {"jobsStatus": [{**counts, "active": 0}]})
        assert (await status(client))["trainerStatus"] == {"lastUpdatedTime": TIME}
        await writer.close()


async def patch(client: Client, job: Object, status: Body) -> None:
    """Write as the reconcile loop does."""
    metadata = {"uid": job["metadata"]["uid"]}
    await client.merge_patch(
        TRAIN_JOBS,
        "job",
        {"metadata": metadata, "status": status},
        namespace="team",
        subresource="status",
        field_manager=FIELD_MANAGER,
    )


async def test_a_report_of_upstreams_server_is_adopted(server: servers.Server) -> None:
    async with server.client() as client:
        job = await made(client)
        identity = {"apiVersion": job["apiVersion"], "kind": job["kind"]}
        body = {**identity, "metadata": {"name": "job", "namespace": "team"}, "status": {"trainerStatus": FULL}}
        await client.apply(TRAIN_JOBS, body, field_manager="trainer-status", subresource="status")
        writer = StatusWriter(client)
        await writer.write(job, {"lastUpdatedTime": TIME, "progressPercentage": 43})
        assert (await status(client))["trainerStatus"] == {"lastUpdatedTime": TIME, "progressPercentage": 43}
        await writer.close()


async def test_a_later_job_of_the_same_name_gets_nothing(server: servers.Server) -> None:
    async with server.client() as client:
        job = await made(client)
        later = await made(client)
        assert later["metadata"]["uid"] != job["metadata"]["uid"]
        writer = StatusWriter(client)
        with pytest.raises(ApiError) as refused:
            await writer.write(job, FULL)
        assert refused.value.not_found
        assert await status(client) == {}
        await writer.close()


async def test_a_uid_does_not_guard_a_status(server: servers.Server) -> None:
    async with server.client() as client:
        job = await made(client)
        stranger = {**job, "metadata": {**job["metadata"], "uid": "00000000-0000-0000-0000-000000000000"}}
        await patch(client, stranger, {"trainerStatus": FULL})
        assert await status(client) == {"trainerStatus": FULL}


async def test_what_the_schema_rejects_is_rejected(server: servers.Server) -> None:
    async with server.client() as client:
        job = await made(client)
        writer = StatusWriter(client)
        with pytest.raises(ApiError) as refused:
            await writer.write(job, {"progressPercentage": 101, "lastUpdatedTime": TIME})
        assert refused.value.status == 422
        await writer.close()
