from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest
from aiohttp import web

from tests.kube.fake_api import FakeApi, error
from tests.kube.kubeconfigs import kubeconfig
from trainyard.kube.api_errors import ApiError, FencedError, TransportError
from trainyard.kube.client import Client
from trainyard.kube.credentials import Connection
from trainyard.kube.resource import Resource

CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap")
NODES = Resource("", "v1", "nodes", "Node", namespaced=False)
JOB_SETS = Resource("jobset.x-k8s.io", "v1alpha2", "jobsets", "JobSet")
PATH = "/api/v1/configmaps"


def config_map(name: str, **data: str) -> dict[str, object]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "ns"}, "data": data}


def test_paths_follow_group_namespace_name_and_subresource() -> None:
    assert CONFIG_MAPS.path(namespace="ns", name="a") == "/api/v1/namespaces/ns/configmaps/a"
    assert CONFIG_MAPS.path() == "/api/v1/configmaps"
    assert NODES.path(name="n", subresource="status") == "/api/v1/nodes/n/status"
    assert JOB_SETS.path(namespace="ns") == "/apis/jobset.x-k8s.io/v1alpha2/namespaces/ns/jobsets"
    with pytest.raises(ValueError, match="namespace"):
        JOB_SETS.path(name="a")


async def test_objects_go_through_their_life(api: FakeApi) -> None:
    async with api.client() as client:
        created = await client.create(CONFIG_MAPS, config_map("a", x="1"))
        assert (await client.get(CONFIG_MAPS, "a", namespace="ns")) == created
        applied = await client.apply(CONFIG_MAPS, config_map("a", y="2"), field_manager="me")
        assert applied["data"] == {"x": "1", "y": "2"}
        patched = await client.merge_patch(CONFIG_MAPS, "a", {"data": {"x": None}}, namespace="ns")
        assert patched["data"] == {"y": "2"}
        with pytest.raises(ApiError) as conflict:
            await client.replace(CONFIG_MAPS, created)
        assert conflict.value.conflict
        with pytest.raises(ApiError):
            await client.delete(CONFIG_MAPS, "a", namespace="ns", uid="another")
        assert await client.delete(CONFIG_MAPS, "a", namespace="ns", uid=created["metadata"]["uid"])
        assert not await client.delete(CONFIG_MAPS, "a", namespace="ns")
        assert await client.find(CONFIG_MAPS, "a", namespace="ns") is None


@pytest.mark.parametrize("name", ["", ".", "..", "a/status", "../../../secrets/a", "a%2fb", "%2e%2e"])
async def test_a_name_that_no_object_can_have_is_not_found_and_never_part_of_a_path(api: FakeApi, name: str) -> None:
    api.fault = lambda fake, request: error(403, "Forbidden", "the path is another")
    async with api.client() as client:
        assert await client.find(CONFIG_MAPS, name, namespace="ns") is None
        assert await client.find_confirmed(CONFIG_MAPS, name, namespace="ns") is None
        assert await client.find_confirmed(CONFIG_MAPS, name, namespace="ns", metadata_only=True) is None
        with pytest.raises(ApiError) as missing:
            await client.get(CONFIG_MAPS, name, namespace="ns")
    assert missing.value.not_found
    assert api.requests == []


async def test_apply_is_json_with_manager_and_force(api: FakeApi) -> None:
    types: list[str] = []
    api.fault = lambda fake, request: types.append(request.headers["Content-Type"])
    async with api.client() as client:
        await client.apply(CONFIG_MAPS, config_map("a"), field_manager="trainer")
    assert types == ["application/apply-patch+yaml"]
    assert api.requests == [("PATCH", "/api/v1/namespaces/ns/configmaps/a?fieldManager=trainer&force=true")]


async def test_a_list_longer_than_one_page_is_complete(api: FakeApi) -> None:
    for number in range(23):
        api.put(PATH, config_map(f"c{number:02}"))
    async with api.client() as client:
        found = await client.list(CONFIG_MAPS, limit=5)
    assert [body["metadata"]["name"] for body in found] == [f"c{number:02}" for number in range(23)]
    assert {body["kind"] for body in found} == {"ConfigMap"}


async def test_a_list_whose_pages_expire_is_fetched_in_one_piece(api: FakeApi) -> None:
    for number in range(9):
        api.put(PATH, config_map(f"c{number}"))

    def expire(fake: FakeApi, request: web.Request) -> None:
        if "continue" in request.query:
            fake.expire_pages()

    api.fault = expire
    async with api.client() as client:
        assert len(await client.list(CONFIG_MAPS, limit=4)) == 9


async def test_throttling_is_waited_out_as_long_as_the_server_asks(api: FakeApi) -> None:
    answers = [
        error(429, "TooManyRequests", "later", Retry_After="0.05"),
        error(429, "TooManyRequests", "later", Retry_After="0"),
    ]
    api.fault = lambda fake, request: answers.pop() if answers else None
    async with api.client() as client:
        await client.create(CONFIG_MAPS, config_map("a"))
    assert len(api.requests) == 3


async def test_throttling_beyond_patience_is_an_error(api: FakeApi) -> None:
    api.fault = lambda fake, request: error(429, "TooManyRequests", "later", Retry_After="60")
    async with api.client(patience=1) as client:
        with pytest.raises(ApiError) as rejected:
            await client.create(CONFIG_MAPS, config_map("a"))
    assert rejected.value.retry_after == 60


async def test_a_write_without_an_answer_is_not_repeated(api: FakeApi) -> None:
    def cut(fake: FakeApi, request: web.Request) -> None:
        assert request.transport is not None
        request.transport.close()

    api.fault = cut
    async with api.client() as client:
        with pytest.raises(TransportError):
            await client.apply(CONFIG_MAPS, config_map("a"), field_manager="me")
    assert len(api.requests) == 1


async def test_a_server_that_does_not_answer_times_out() -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with Client(Connection(f"http://127.0.0.1:{port}"), timeout=0.05) as client:
        with pytest.raises(TransportError, match=r"/nodes/n: \w+"):
            await client.get(NODES, "n")
    server.close()


async def test_fenced_writes_are_not_sent_and_reads_are(api: FakeApi) -> None:
    remaining = 10.0
    async with api.client() as client:
        fenced = client.fenced(lambda: remaining)
        await fenced.create(CONFIG_MAPS, config_map("a"))
        for short in (0.4, 0.0, -1.0):
            remaining = short
            with pytest.raises(FencedError):
                await fenced.create(CONFIG_MAPS, config_map("b"))
        assert (await fenced.get(CONFIG_MAPS, "a", namespace="ns"))["metadata"]["name"] == "a"
        await client.create(CONFIG_MAPS, config_map("b"))


@pytest.mark.parametrize(("status", "reason"), [(429, "TooManyRequests"), (401, "Unauthorized")])
async def test_a_write_is_fenced_again_at_each_repetition(
    api: FakeApi, tmp_path: Path, status: int, reason: str
) -> None:
    remaining = 10.0

    def refuse(fake: FakeApi, request: web.Request) -> web.StreamResponse:
        nonlocal remaining
        remaining = 0.1
        (tmp_path / "token").write_text("new")
        return error(status, reason, "later", Retry_After="0.01")

    api.fault = refuse
    (tmp_path / "token").write_text("old")
    config = kubeconfig(tmp_path, f"http://127.0.0.1:{api.port}", {"tokenFile": "token"})
    async with Client.from_kubeconfig(config) as client:
        with pytest.raises(FencedError):
            await client.fenced(lambda: remaining).create(CONFIG_MAPS, config_map("a"))
    assert len(api.requests) == 1


@pytest.mark.slow
async def test_no_write_outlives_the_time_that_remains(api: FakeApi) -> None:
    asked: list[str] = []
    original = api.answer

    async def slow(request: web.Request) -> web.StreamResponse:
        asked.append(request.query.get("timeout", ""))
        if len(asked) < 3:
            await asyncio.sleep(30)
        return await original(request)

    api.answer = slow  # type: ignore[method-assign]
    async with api.client(timeout=5) as client:
        writer = client.fenced(lambda: 0.6)
        for write in (
            writer.create(CONFIG_MAPS, config_map("a")),
            writer.merge_patch(CONFIG_MAPS, "a", {"data": {}}, namespace="ns"),
        ):
            started = time.monotonic()
            with pytest.raises(TransportError):
                await write
            assert time.monotonic() - started < 4
        await client.fenced(lambda: 100.0).create(CONFIG_MAPS, config_map("b"))
        await writer.get(CONFIG_MAPS, "b", namespace="ns")
    assert asked == ["0.600s", "0.600s", "5.000s", ""]


async def test_a_fenced_client_knows_when_a_write_was_last_left_without_an_answer(api: FakeApi) -> None:
    async with api.client(timeout=0.2) as client:
        writer = client.fenced(lambda: 100.0)
        await writer.create(CONFIG_MAPS, config_map("a"))
        with pytest.raises(ApiError):
            await writer.create(CONFIG_MAPS, config_map("a"))
        assert writer.unanswered_at == float("-inf")
        original, inside = api.answer, asyncio.Event()

        async def silent(request: web.Request) -> web.StreamResponse:
            inside.set()
            await asyncio.sleep(30)
            return await original(request)

        api.answer = silent  # type: ignore[method-assign]
        with pytest.raises(TransportError):
            await writer.get(CONFIG_MAPS, "a", namespace="ns")
        with pytest.raises(TransportError):
            await client.create(CONFIG_MAPS, config_map("b"))
        assert writer.unanswered_at == float("-inf"), "a read, and a write of another client"
        before = time.monotonic()
        with pytest.raises(TransportError):
            await writer.create(CONFIG_MAPS, config_map("b"))
        timed_out = writer.unanswered_at
        assert before <= timed_out <= time.monotonic()
        inside.clear()
        writing = asyncio.create_task(writer.create(CONFIG_MAPS, config_map("b")))
        await inside.wait()
        writing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await writing
        assert writer.unanswered_at > timed_out
    async with Client(Connection("http://127.0.0.1:1")) as client:
        writer = client.fenced(lambda: 100.0)
        with pytest.raises(TransportError):
            await writer.create(CONFIG_MAPS, config_map("a"))
        assert writer.unanswered_at == float("-inf"), "it was not sent"


async def test_a_separate_client_waits_for_no_other_request(api: FakeApi) -> None:
    inside = asyncio.Event()
    original = api.answer

    async def slow(request: web.Request) -> web.StreamResponse:
        if request.path.endswith("/slow"):
            inside.set()
            await asyncio.sleep(30)
        if request.path.endswith("/throttled"):
            return error(429, "TooManyRequests", "later", Retry_After="30")
        return await original(request)

    api.answer = slow  # type: ignore[method-assign]
    api.put("/api/v1/nodes", {"metadata": {"name": "n"}})
    async with api.client(concurrency=1) as client:
        separate = client.separate(patience=0.0)
        blocked = asyncio.create_task(client.get(NODES, "slow"))
        await inside.wait()
        assert (await asyncio.wait_for(separate.get(NODES, "n"), 1))["metadata"]["name"] == "n"
        with pytest.raises(ApiError):
            await asyncio.wait_for(separate.get(NODES, "throttled"), 1)
        blocked.cancel()
        session = separate._transport._sessions[0]
    assert session.closed


async def test_preconditions_name_the_incarnation_or_the_version(api: FakeApi) -> None:
    async with api.client() as client:
        stored = await client.create(CONFIG_MAPS, config_map("a", x="1"))
        uid, version = stored["metadata"]["uid"], stored["metadata"]["resourceVersion"]
        where = {"namespace": "ns"}
        await client.merge_patch(CONFIG_MAPS, "a", {"data": {"x": "2"}}, uid=uid, resource_version=version, **where)
        step = [{"op": "replace", "path": "/data/x", "value": "3"}]
        await client.json_patch(CONFIG_MAPS, "a", step, uid=uid, **where)
        for patch in ({"uid": "another"}, {"resource_version": version}):
            with pytest.raises(ApiError) as rejected:
                await client.merge_patch(CONFIG_MAPS, "a", {"metadata": {"labels": {}}}, **patch, **where)
            assert rejected.value.conflict
            with pytest.raises(ApiError) as failed:
                await client.json_patch(CONFIG_MAPS, "a", step, **patch, **where)
            assert (failed.value.status, failed.value.conflict) == (422, True)
            with pytest.raises(ApiError):
                await client.delete(CONFIG_MAPS, "a", **patch, **where)
        with pytest.raises(ApiError):
            await client.apply(
                CONFIG_MAPS, {"metadata": {"name": "b", "namespace": "ns", "uid": uid}}, field_manager="m"
            )
        assert api.unconditional == []
        assert await client.delete(CONFIG_MAPS, "a", uid=uid, **where)
        await client.apply(CONFIG_MAPS, config_map("c"), field_manager="m")
        await client.merge_patch(CONFIG_MAPS, "c", {"data": {}}, **where)
        await client.delete(CONFIG_MAPS, "c", **where)
    assert [method for method, _ in api.unconditional] == ["PATCH", "PATCH", "DELETE"]
