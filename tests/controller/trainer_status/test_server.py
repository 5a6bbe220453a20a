"""The status server answers as upstream's does, and the flood of one job does not affect others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from tests.controller.harness import JOB_SETS, PLATFORMS, TRAIN_JOBS, Body, train_job
from tests.controller.trainer_status.test_limits import Clock
from tests.controller.trainer_status.test_tokens import accepted
from tests.kube.fake_api import FakeApi, error, eventually
from trainyard.controller.cluster_cache import ClusterCache
from trainyard.controller.metrics import Metrics
from trainyard.controller.trainer_status.status_server import ProgressServer
from trainyard.controller.trainer_status.tokens import TokenReviewer
from trainyard.controller.trainer_status.writer import StatusWriter

PATH = "/apis/trainer.kubeflow.org/v1alpha1/namespaces/team/trainjobs/job/status"
REPORT = {"trainerStatus": {"progressPercentage": 42, "lastUpdatedTime": "2026-01-01T00:00:00.5+00:00"}}
STORED = {"progressPercentage": 42, "lastUpdatedTime": "2026-01-01T00:00:00Z"}
BEARER = {"Authorization": "Bearer e30.e30.x"}


@dataclass
class Site:
    api: FakeApi
    metrics: Metrics
    url: str
    session: aiohttp.ClientSession
    server: ProgressServer

    async def post(self, body: Any = REPORT, *, path: str = PATH, **options: Any) -> tuple[int, Any]:
        sent = {"data": body} if isinstance(body, bytes) else {"json": body}
        options.setdefault("headers", BEARER)
        async with self.session.post(self.url + path, **sent, **options) as response:
            return response.status, await response.json()

    def stored(self) -> Body | None:
        body = self.api.find("trainjobs", "job", "team")
        return None if body is None else (body.get("status") or {}).get("trainerStatus")


def platform(**spec: Any) -> Body:
    kind = {"apiVersion": "trainyard.dev/v1alpha1", "kind": "Platform"}
    return {**kind, "metadata": {"name": "platform"}, "spec": spec}


def job_set(name: str = "job", *replicated_jobs: str) -> Body:
    status = {"replicatedJobsStatus": [{"name": each} for each in replicated_jobs or ("node",)]}
    metadata = {"name": name, "namespace": "team", "labels": {"trainyard.dev/train-job": name}}
    return {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": metadata, "status": status}


@asynccontextmanager
async def serving(api: FakeApi, cache: ClusterCache, client: Any) -> AsyncIterator[Site]:
    metrics = Metrics()
    server = ProgressServer(cache, TokenReviewer(client), StatusWriter(client, interval=0.02), metrics, clock=Clock())
    app = web.Application()
    server.mount(app)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    async with aiohttp.ClientSession() as session:
        yield Site(api, metrics, f"http://127.0.0.1:{runner.addresses[0][1]}", session, server)
    await runner.cleanup()


@pytest.fixture
async def site(api: FakeApi) -> AsyncIterator[Site]:
    api.put(PLATFORMS, platform(statusServer={"service": "s", "namespace": "n"}))
    api.put(TRAIN_JOBS, train_job())
    api.put(JOB_SETS, job_set())
    api.review = lambda spec: accepted(audiences=spec["audiences"])
    async with api.client(patience=0) as client:
        cache = ClusterCache(client, authority=lambda: "PEM")
        watching = [asyncio.create_task(informer.run()) for informer in cache.informers]
        await cache.wait_settled()
        async with serving(api, cache, client) as found:
            yield found
        for task in watching:
            task.cancel()
        await asyncio.gather(*watching, return_exceptions=True)


def pod(name: str, namespace: str = "team") -> Any:
    user = {
        "username": f"system:serviceaccount:{namespace}:default",
        "extra": {"authentication.kubernetes.io/pod-name": [name]},
    }
    return lambda spec: accepted(audiences=spec["audiences"], user=user)


async def test_a_report_is_stored_and_echoed(site: Site) -> None:
    assert await site.post() == (200, {"trainerStatus": STORED})
    assert site.stored() == STORED
    assert 'trainyard_trainer_status_reports_total{code="200"} 1.0' in site.metrics.text().decode()
    assert site.api.reviewed[0]["audiences"] == [PATH.removeprefix("/apis/")]


async def test_a_finished_job_takes_its_last_report(site: Site) -> None:
    condition = {"type": "Complete", "status": "True", "reason": "r", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    site.api.put(TRAIN_JOBS, {**train_job(), "status": {"conditions": [condition]}})
    assert (await site.post())[0] == 200
    assert site.stored() == STORED


@pytest.mark.parametrize(
    "header",
    ["", "Bearer", "Basic e30.e30.x", "Bearer a b", "e30.e30.x"],
    ids=["none", "empty", "basic", "two", "bare"],
)
async def test_without_a_token_nothing_is_asked(site: Site, header: str) -> None:
    code, status = await site.post(headers={"Authorization": header} if header else {})
    assert (code, status["reason"], status["message"]) == (403, "Forbidden", "Forbidden")
    assert site.api.reviewed == []


@pytest.mark.parametrize("header", ["bearer e30.e30.x", "  Bearer   e30.e30.x "])
async def test_the_scheme_is_read_as_upstream_reads_it(site: Site, header: str) -> None:
    assert (await site.post(headers={"Authorization": header}))[0] == 200


@pytest.mark.parametrize(
    "review",
    [
        lambda spec: {"authenticated": False},
        pod("job-node-0-0-abcde", namespace="other"),
        pod("other-node-0-0-abcde"),
        pod("job-two-node-0-0-abcde"),
        pod("job-launcher-0-0-abcde"),
        pod("job-node-0-0-abcde-more"),
        pod("job"),
        pod(""),
    ],
)
async def test_a_token_of_another_pod_is_rejected(site: Site, review: Any) -> None:
    site.api.put(TRAIN_JOBS, train_job("job-two"))
    site.api.put(JOB_SETS, job_set("job-two"))
    site.api.review = review
    assert (await site.post())[0] == 403
    assert site.stored() is None


@pytest.mark.parametrize("name", ["job-node-0-0-abcde", "job-node-12-345-x2z4b", "job-node-0-abcde"])
async def test_every_pod_of_the_job_may_report(site: Site, name: str) -> None:
    site.api.review = pod(name)
    assert (await site.post())[0] == 200


async def test_a_name_that_is_a_pattern_is_no_pattern(site: Site) -> None:
    site.api.put(TRAIN_JOBS, train_job("a.b"))
    site.api.put(JOB_SETS, job_set("a.b", "node"))
    path = PATH.replace("/job/", "/a.b/")
    site.api.review = pod("axb-node-0-0-abcde")
    assert (await site.post(path=path))[0] == 403


async def test_a_job_that_does_not_exist_is_not_found(site: Site) -> None:
    code, status = await site.post(path=PATH.replace("/job/", "/gone/"))
    assert (code, status["reason"], status["message"]) == (404, "NotFound", "Train job not found")


@pytest.mark.parametrize("name", ["..", "a%2Fb", "A", "-", "a/b", "%2e%2e"])
async def test_what_is_no_name_is_no_path(site: Site, name: str) -> None:
    async with site.session.post(f"{site.url}{PATH.replace('/job/', f'/{name}/')}", headers=BEARER) as response:
        assert response.status == 404
    assert site.api.reviewed == []


async def test_an_invalid_report_is_rejected_with_the_field(site: Site) -> None:
    code, status = await site.post({"trainerStatus": {**STORED, "progressPercentage": 101}})
    assert (code, status["reason"]) == (422, "Invalid")
    assert status["message"].startswith("trainerStatus.progressPercentage: ")
    assert await site.post(b"invalid payload") == (
        422,
        {
            "apiVersion": "v1",
            "kind": "Status",
            "status": "Failure",
            "message": "Invalid payload",
            "reason": "Invalid",
            "code": 422,
        },
    )
    assert site.stored() is None


async def test_an_empty_report_is_fine(site: Site) -> None:
    assert await site.post({}) == (200, {})
    assert site.stored() is None


async def test_a_body_beyond_the_limit_is_rejected_announced_or_not(site: Site) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(100):
            yield b" " * 1024

    assert (await site.post(b" " * 65_537))[0] == 413
    assert site.api.reviewed == []
    async with site.session.post(site.url + PATH, data=chunks(), headers=BEARER) as response:
        assert response.status == 413
    assert site.stored() is None


@pytest.mark.slow
async def test_a_thousand_reports_at_once_are_a_few_writes_and_no_error_of_the_server(site: Site) -> None:
    codes = {code for code, _ in await asyncio.gather(*(site.post() for _ in range(1000)))}
    assert codes <= {200, 429}
    writes = [path for method, path in site.api.writes if path.endswith("/status")]
    assert 1 <= len(writes) < 200
    assert site.stored() == STORED


@pytest.mark.slow
async def test_a_job_that_reports_without_end_is_slowed_down(site: Site) -> None:
    codes = [(await site.post({}))[0] for _ in range(1001)]
    assert codes == [200] * 1000 + [429]
    site.api.put(TRAIN_JOBS, train_job("other"))
    site.api.put(JOB_SETS, job_set("other"))
    site.api.review = pod("other-node-0-0-abcde")
    assert (await site.post(path=PATH.replace("/job/", "/other/")))[0] == 200


async def test_an_api_server_that_fails_is_an_internal_error(site: Site) -> None:
    site.api.fault = lambda api, request: (
        error(500, "InternalError", "etcd is away") if request.method in ("POST", "PATCH") else None
    )
    code, status = await site.post()
    assert (code, status["reason"], status["message"]) == (500, "InternalError", "Internal error")
    site.api.fault = lambda api, request: error(422, "Invalid", "wrong") if request.method == "PATCH" else None
    code, status = await site.post()
    assert (code, status["reason"], status["message"]) == (422, "Invalid", "wrong")
    site.api.fault = None
    assert (await site.post())[0] == 200


async def test_where_the_platform_takes_no_reports_there_is_no_server(site: Site) -> None:
    site.api.put(PLATFORMS, platform())
    await eventually(lambda: not site.server._cache.serves_status)
    assert (await site.post())[0] == 404
    assert site.api.reviewed == []
