"""State of a live cluster: shared informers, only what may be read, nothing secret, and changes that matter."""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from tests.console.recorded_platform import platform
from tests.explain.recorded_clusters import Body, minutes_ago
from tests.explain.recorded_clusters import body as made
from tests.kube.fake_api import FakeApi, Fault, error, eventually, serving
from trainyard.cluster_state.cluster_snapshot import CLUSTER_KINDS, JOB_KINDS
from trainyard.cluster_state.observed import Kind
from trainyard.errors import TrainyardError
from trainyard.insight.console import live_source
from trainyard.insight.console.live_source import LOG_BYTES, LiveSource
from trainyard.insight.console.views.platform_health import health
from trainyard.insight.console.views.platform_view import PlatformView
from trainyard.kube.kinds import DEPLOYMENTS, MUTATING_WEBHOOKS, NODES, PODS, VALIDATING_WEBHOOKS
from trainyard.kube.leader import LEASES

RESOURCES = {
    (each.api_version, each.kind): each
    for each in (
        *(resource for resource, _ in (*JOB_KINDS, *CLUSTER_KINDS)),
        *(PODS, DEPLOYMENTS, LEASES, MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS),
    )
}


def put(api: FakeApi, found: Body) -> None:
    api.put(RESOURCES[found["apiVersion"], found["kind"]].path(), found)


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
        source = LiveSource(client, "test", ["vision"])
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


@asynccontextmanager
async def checked(api: FakeApi, monkeypatch: pytest.MonkeyPatch, old: float = 0.05) -> AsyncIterator[LiveSource]:
    """Return a started source that checks its state at once and calls it old soon."""
    monkeypatch.setattr(live_source, "_LEASE_SECONDS", 0.01)
    monkeypatch.setattr(live_source, "_OLD_SECONDS", old)
    monkeypatch.setattr(live_source, "_FIRST_LISTS_SECONDS", 0.05)
    async with api.client(timeout=1) as client:
        source = LiveSource(client, "test")
        try:
            await asyncio.wait_for(source.start(), 20)
            source.observed()
            yield source
        finally:
            await source.close()


def away(_: FakeApi, request: web.Request) -> web.Response | None:
    assert request.transport is not None
    request.transport.close()
    return error(500, "x", "x")


def failing(status: int, *words: str) -> Fault:
    """Return a fault of requests whose address contains all words."""
    return lambda _, request: error(status, "x", "no") if all(each in str(request.rel_url) for each in words) else None


FAULTS = {
    "away": (away, "no answer from the API server"),
    "reads of Leases": (failing(500, "/leases"), "the API server rejects reads: 500"),
    "all": (failing(503), "the API server rejects reads: 503"),
    "one kind": (failing(500, "/pods"), "Pods are not up to date: 500"),
    "one kind is silent": (failing(504, "/jobsets", "watch"), "JobSets are not up to date: 504"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", FAULTS)
async def test_a_state_that_may_be_old_says_so(api: FakeApi, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    fault, text = FAULTS[name]
    async with checked(api, monkeypatch) as source:
        assert source.fault == ""
        api.fault = fault
        api.cut_watches()
        await eventually(lambda: source.fault.startswith(text), within=20)
        await asyncio.wait_for(source.changed(), 20)
        source.observed()
        confirmed = source.confirmed
        assert confirmed is not None
        await asyncio.sleep(0.05)
        source.observed()
        assert source.confirmed == confirmed  # not the time of the page
        api.fault = None
        await asyncio.wait_for(source.changed(), 20)
        put(api, platform().job("after").bodies[0])
        api.cut_watches()
        await eventually(lambda: source.fault == "" and source.observed() and source.confirmed != confirmed, within=20)


async def test_a_quiet_cluster_stays_current(api: FakeApi, monkeypatch: pytest.MonkeyPatch) -> None:
    async with checked(api, monkeypatch) as source:
        first = source.confirmed
        assert first is not None
        await eventually(lambda: source.confirmed is not None and source.confirmed > first, within=20)
        monkeypatch.setattr(live_source, "_REFRESH_SECONDS", 0.01)
        await asyncio.wait_for(source.changed(), 20)


@pytest.mark.slow
@pytest.mark.parametrize("words", [("/pods",), ("/pods", "watch")])
async def test_a_right_that_is_taken_away_hides_the_kind(
    api: FakeApi, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    async with checked(api, monkeypatch, 60) as source:
        assert any(body["kind"] == "Pod" for body in source.observed().objects)
        api.fault = failing(403, *words)
        api.cut_watches()
        await asyncio.wait_for(source.changed(), 20)
        found = source.observed()
        assert source.losses == 1
        assert found.unread == {Kind.POD}
        assert not any(body["kind"] == "Pod" for body in found.objects)
        assert source.fault == ""
        api.fault = None
        for body in platform().job("later").bodies:
            put(api, body)
        await eventually(lambda: source.observed().unread == frozenset(), within=20)
        await eventually(lambda: "later-node-0-0" in str(source.observed().objects), within=20)


async def test_a_kind_whose_first_list_fails_is_named(api: FakeApi, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def after_the_first(_: FakeApi, request: web.Request) -> web.Response | None:
        if request.path.endswith("/nodes"):
            calls.append(request)
        return error(500, "x", "no") if request.path.endswith("/nodes") and len(calls) > 1 else None

    api.fault = after_the_first
    async with checked(api, monkeypatch) as source:
        assert source.fault.startswith("Nodes are not up to date: 500")
        assert source.observed().unread == {Kind.NODE}


def lease(name: str, seconds: int) -> Body:
    renewed = (datetime.datetime.now(datetime.UTC) - datetime.timedelta(seconds=seconds)).isoformat()
    return made(
        "coordination.k8s.io/v1", "Lease", name, "volcano-system",
        spec={"renewTime": renewed.replace("+00:00", "Z"), "leaseDurationSeconds": 15},
    )  # fmt: skip


async def test_a_program_that_hangs_is_a_change_on_a_quiet_cluster(
    api: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(api, lease("vc-controller-manager", 0))
    put(api, lease("volcano", 20))
    async with checked(api, monkeypatch) as source:
        changed = asyncio.ensure_future(source.changed())
        put(api, lease("vc-controller-manager", -20))
        await asyncio.wait_for(changed, 20)
        found = {each.name: each.fault for each in health(PlatformView(source.observed())).programs}
        assert found["volcano-scheduler"].startswith("its Lease volcano was renewed 40 s ago")
        assert found["volcano-controllers"] == ""


async def test_old_leases_do_not_stop_programs(api: FakeApi, monkeypatch: pytest.MonkeyPatch) -> None:
    put(api, lease("volcano", 0))
    async with checked(api, monkeypatch) as source:
        api.fault = failing(500, "/leases")
        await eventually(lambda: source.fault, within=20)
        node = api.objects[NODES.path(), "", "rack-0-node-0"]
        later = {**node["status"]["conditions"][0], "lastHeartbeatTime": lease("x", -600)["spec"]["renewTime"]}
        put(api, {**node, "status": {**node["status"], "conditions": [later]}})
        await eventually(lambda: later["lastHeartbeatTime"] in str(source.observed().objects))
        found = source.observed()
        assert {each.fault for each in health(PlatformView(found)).programs} == {""}
        assert Kind.LEASE in found.unread


async def test_logs_are_bounded_and_their_errors_are_shown(api: FakeApi, source: LiveSource) -> None:
    queries = []

    def log(_: FakeApi, request: web.Request) -> web.Response | None:
        if not request.path.endswith("/log"):
            return None
        queries.append(dict(request.query))
        return web.Response(body=b"one\n\xfftwo") if "wide" in request.path else error(404, "NotFound", "no pod")

    api.fault = log
    assert await source.logs("vision", "wide-node-0-0", "node") == "one\n\ufffdtwo"
    assert queries == [{"tailLines": "200", "limitBytes": "1048576", "container": "node"}]
    with pytest.raises(TrainyardError, match="No logs of vision/other"):
        await source.logs("vision", "other", "node")


async def test_logs_of_long_lines_are_the_newest(api: FakeApi, source: LiveSource) -> None:
    lines = [f"{number} " + "x" * 100_000 for number in range(300)]

    def log(_: FakeApi, request: web.Request) -> web.Response | None:
        if not request.path.endswith("/log"):
            return None
        text = "\n".join(lines[-int(request.query["tailLines"]) :])
        return web.Response(text=text[: int(request.query["limitBytes"])])

    api.fault = log
    lines.append("the end")
    found = await source.logs("vision", "wide-node-0-0", "node")
    assert found.endswith("the end")
    assert len(found) <= LOG_BYTES


async def test_a_kind_of_too_many_objects_is_not_read(source: LiveSource, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_source, "MAX_OBJECTS", 7)
    found = source.observed()
    assert {Kind.NODE, Kind.POD} <= found.unread
    assert not any(body["kind"] == "Node" for body in found.objects)
