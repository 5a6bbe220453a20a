"""State of a live cluster: shared informers, only what may be read, nothing secret, and changes that matter."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from aiohttp import web

from tests.console.recorded_platform import platform
from tests.explain.recorded_clusters import Body, minutes_ago
from tests.kube.fake_api import FakeApi, error, eventually, serving
from trainyard.console import live_source
from trainyard.console.live_source import LiveSource
from trainyard.console.views.platform_health import health
from trainyard.console.views.platform_view import PlatformView
from trainyard.errors import TrainyardError
from trainyard.explain import Kind
from trainyard.kube.kinds import DEPLOYMENTS, MUTATING_WEBHOOKS, NODES, PODS, VALIDATING_WEBHOOKS
from trainyard.kube.leader import LEASES
from trainyard.live.cluster_snapshot import CLUSTER_KINDS, JOB_KINDS

RESOURCES = {
    (each.api_version, each.kind): each
    for each in (
        *(resource for resource, _ in (*JOB_KINDS, *CLUSTER_KINDS)),
        *(PODS, DEPLOYMENTS, LEASES, MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS),
    )
}


def put(api: FakeApi, body: Body) -> None:
    api.put(RESOURCES[body["apiVersion"], body["kind"]].path(), body)


def counted(api: FakeApi) -> int:
    return len(api.requests)


@pytest.fixture
async def api() -> AsyncIterator[FakeApi]:
    async with serving(FakeApi()) as found:
        for body in platform().bodies:
            put(found, body)
        yield found


@pytest.fixture
async def source(api: FakeApi) -> AsyncIterator[LiveSource]:
    async with api.client() as client:
        made = LiveSource(client, "test", requests=lambda: counted(api))
        await made.start()
        yield made
        await made.close()


async def test_a_live_cluster_has_the_page_of_its_record(source: LiveSource) -> None:
    live, recorded = (PlatformView(each) for each in (source.observed(), platform().observed))
    assert [row.key for row in live.jobs] == [row.key for row in recorded.jobs]
    found, expected = health(live), health(recorded)
    assert (found.issues, found.programs, found.devices) == (expected.issues, expected.programs, expected.devices)
    assert [each.name for each in found.authorities or ()] == ["trainyard-webhooks"]
    assert live.unread == []


async def test_changes_arrive_without_further_lists(api: FakeApi, source: LiveSource) -> None:
    source.observed()
    lists = [path for method, path in api.requests if method == "GET"]
    changed = asyncio.ensure_future(source.changed())
    await asyncio.sleep(0)
    assert not changed.done()
    for body in platform().job("new").bodies:
        put(api, body)
    await asyncio.wait_for(changed, 10)
    await eventually(lambda: "trainjob/vision/new" in PlatformView(source.observed()).by_key)
    assert [path for method, path in api.requests if method == "GET"] == lists


async def test_heartbeats_are_no_change(api: FakeApi, source: LiveSource) -> None:
    source.observed()
    node = api.objects[NODES.path(), "", "rack-0-node-0"]
    ready = {**node["status"]["conditions"][0], "lastHeartbeatTime": minutes_ago(0)}
    put(api, {**node, "status": {**node["status"], "conditions": [ready]}})
    changed = asyncio.ensure_future(source.changed())
    await eventually(
        lambda: any("lastHeartbeatTime" in str(each) for each in source.observed().objects if each["kind"] == "Node")
    )
    assert not changed.done()
    put(api, {**node, "spec": {"unschedulable": True}})
    await asyncio.wait_for(changed, 10)


async def test_secrets_commands_and_values_are_not_kept(api: FakeApi, source: LiveSource) -> None:
    text = str(source.observed().objects)
    assert "API_KEY" in text
    assert "s3cret" not in text
    for kind in ("secrets", "configmaps"):
        assert not any(kind in path for _, path in api.requests)
    assert {method for method, _ in api.requests} == {"GET"}


async def test_what_may_not_be_read_is_named_and_read_in_the_namespace(api: FakeApi) -> None:
    def forbidden(_: FakeApi, request: web.Request) -> web.Response | None:
        own = "/namespaces/vision/" in request.path
        shared = any(request.path.endswith(f"/{each}") for each in ("queues", "hypernodes", "priorityclasses"))
        return None if own or shared else error(403, "Forbidden", "no")

    api.fault = forbidden
    async with api.client() as client:
        source = LiveSource(client, "test", "vision")
        await asyncio.wait_for(source.start(), 20)
        view = PlatformView(source.observed())
        await source.close()
    assert [row.key for row in view.jobs] == ["trainjob/vision/wide"]
    assert "language" not in {body["metadata"].get("namespace") for body in view.observed.objects}
    assert {Kind.NODE, Kind.POD, Kind.TRAIN_JOB, Kind.DEPLOYMENT, Kind.LEASE} <= view.observed.unread
    assert Kind.QUEUE not in view.observed.unread
    assert health(view).issues == ()


async def test_missing_kinds_are_empty(api: FakeApi) -> None:
    api.unserved.update({"workloads", "hypernodes", "queues"})
    async with api.client() as client:
        source = LiveSource(client, "test")
        await asyncio.wait_for(source.start(), 20)
        assert not any(body["kind"] == "Queue" for body in source.observed().objects)
        await source.close()


async def test_an_api_server_that_is_away_is_a_fault_of_the_page(api: FakeApi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_source, "_LEASE_SECONDS", 0.01)
    async with api.client(timeout=1) as client:
        source = LiveSource(client, "test")
        await source.start()
        source.observed()

        def away(_: FakeApi, request: web.Request) -> web.Response | None:
            assert request.transport is not None
            request.transport.close()
            return error(500, "x", "x")

        api.fault = away
        await asyncio.wait_for(source.changed(), 20)
        assert source.fault.startswith("no answer from the API server")
        source.observed()
        api.fault = None
        await asyncio.wait_for(source.changed(), 20)
        assert source.fault == ""
        await source.close()


async def test_logs_are_bounded_and_their_errors_are_shown(api: FakeApi, source: LiveSource) -> None:
    queries = []

    def log(_: FakeApi, request: web.Request) -> web.Response | None:
        if not request.path.endswith("/log"):
            return None
        queries.append(dict(request.query))
        return web.Response(body=b"one\n\xfftwo") if "wide" in request.path else error(404, "NotFound", "no pod")

    api.fault = log
    assert await source.logs("vision", "wide-node-0-0", "node") == "one\n\ufffdtwo"
    assert queries == [{"tailLines": "200", "limitBytes": "65536", "container": "node"}]
    with pytest.raises(TrainyardError, match="No logs of vision/other"):
        await source.logs("vision", "other", "node")
