from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from tests.kube.fake_api import FakeApi, error, eventually, line
from tests.simulation.api_server import Call
from trainyard.kube.backoff import Backoff
from trainyard.kube.informer import Informer
from trainyard.kube.resource import Resource
from trainyard.kube.store import StoreChange

CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap")
PATH = "/api/v1/configmaps"


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "ns"}, "data": data}


class Running:
    def __init__(self, informer: Informer) -> None:
        self.informer = informer
        self.changes: list[str] = []
        informer.subscribe(self._keep)

    def _keep(self, change: StoreChange) -> None:
        kind = "added" if change.old is None else "deleted" if change.new is None else "modified"
        self.changes.append(f"{kind} {change.key[1]}")

    def names(self) -> list[str]:
        return sorted(item["metadata"]["name"] for item in self.informer.store)


@asynccontextmanager
async def running(api: FakeApi, **options: Any) -> AsyncIterator[Running]:
    async with api.client() as client:
        informer = Informer(client, CONFIG_MAPS, backoff=Backoff(0.005, 0.02), missing_retry=0.02, **options)
        state = Running(informer)
        task = asyncio.create_task(informer.run())
        try:
            yield state
            assert not task.done()
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def test_a_long_collection_is_complete_and_then_followed(api: FakeApi) -> None:
    for number in range(12):
        api.put(PATH, config_map(f"c{number:02}"))
    async with running(api, page_size=5) as state:
        await eventually(lambda: state.informer.synced)
        assert len(state.names()) == 12
        api.put(PATH, config_map("new"))
        api.remove(PATH, "ns", "c00")
        await eventually(lambda: "new" in state.names() and "c00" not in state.names())
    assert state.changes[-2:] == ["added new", "deleted c00"]
    assert sum("limit=5" in path for _, path in api.requests) == 3


async def test_pages_that_expire_are_fetched_again_in_one_piece(api: FakeApi) -> None:
    for number in range(7):
        api.put(PATH, config_map(f"c{number}"))

    def expire(fake: FakeApi, request: web.Request) -> None:
        if "continue" in request.query:
            fake.expire_pages()

    api.fault = expire
    async with running(api, page_size=3) as state:
        await eventually(lambda: state.informer.synced)
        assert len(state.names()) == 7


async def test_a_watch_resumes_where_it_was_cut_without_a_new_list(api: FakeApi) -> None:
    async with running(api) as state:
        await eventually(lambda: state.informer.synced)
        for number in range(3):
            api.put(PATH, config_map(f"c{number}"))
            await eventually(lambda number=number: f"c{number}" in state.names())
            api.cut_watches()
        api.put(PATH, config_map("last"))
        await eventually(lambda: "last" in state.names())
    assert state.informer.relists == {"start": 1}
    assert len(state.changes) == 4


async def test_deletions_missed_before_an_expired_version_are_delivered(api: FakeApi) -> None:
    api.put(PATH, config_map("stays"))
    api.put(PATH, config_map("goes"))
    async with running(api) as state:
        await eventually(lambda: state.informer.synced)
        blocked = True
        api.fault = lambda fake, request: error(503, "ServiceUnavailable", "down") if blocked else None
        api.cut_watches()
        api.remove(PATH, "ns", "goes")
        api.put(PATH, config_map("comes"))
        api.compact()
        blocked = False
        await eventually(lambda: state.names() == ["comes", "stays"])
    assert "deleted goes" in state.changes
    assert state.changes.count("added stays") == 1
    assert state.informer.relists["expired"] == 1


async def test_an_expired_version_is_listed_again_without_the_delay_of_earlier_failures(
    api: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)
        await asyncio.tasks.sleep(0)

    async with api.client() as client:
        informer = Informer(client, CONFIG_MAPS, backoff=Backoff(0.8, 30.0))
        task = asyncio.create_task(informer.run())
        await informer.wait_synced()
        monkeypatch.setattr("trainyard.kube.informer.asyncio.sleep", sleep)
        api.fault = lambda fake, request: error(503, "ServiceUnavailable", "down") if len(waits) < 5 else None
        api.put(PATH, config_map("comes"))
        api.compact()
        api.cut_watches()
        await informer_holds(informer, 1)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert informer.relists["expired"] == 1
    assert len(waits) == 5


async def informer_holds(informer: Informer, count: int) -> None:
    while len(informer.store) < count or not informer.relists["expired"]:
        await asyncio.tasks.sleep(0.01)


async def test_the_delay_before_the_first_list_is_bounded(api: FakeApi, monkeypatch: pytest.MonkeyPatch) -> None:
    """A controller that starts while the API server is away serves its webhooks soon after it is back."""
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)
        await asyncio.tasks.sleep(0)

    async with api.client() as client:
        informer = Informer(client, CONFIG_MAPS, backoff=Backoff(0.8, 30.0, uniform=lambda: 1.0))
        api.fault = lambda fake, request: error(503, "ServiceUnavailable", "") if len(waits) < 9 else None
        monkeypatch.setattr("trainyard.kube.informer.asyncio.sleep", sleep)
        task = asyncio.create_task(informer.run())
        await informer.wait_synced()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert len(waits) == 9
    assert max(waits) == 2.0


async def test_a_resource_that_is_not_served_yet_is_empty_until_it_appears(api: FakeApi) -> None:
    api.unserved.add("configmaps")
    async with running(api) as state:
        await eventually(lambda: state.informer.missing)
        assert state.informer.settled
        assert not state.informer.synced
        api.unserved.clear()
        api.put(PATH, config_map("a"))
        await eventually(lambda: state.informer.synced and state.names() == ["a"])
        assert not state.informer.missing
        api.unserved.add("configmaps")
        api.cut_watches()
        await eventually(lambda: state.changes[-1] == "deleted a")


async def test_other_errors_are_waited_out_and_never_end_the_informer(api: FakeApi) -> None:
    answers = [
        error(500, "InternalError", ""),
        error(403, "Forbidden", ""),
        error(429, "TooManyRequests", "", Retry_After="0.01"),
        web.Response(text="<html>"),
    ]
    api.fault = lambda fake, request: answers.pop() if answers else None
    async with running(api) as state:
        await eventually(lambda: state.informer.synced)
    assert not answers


async def test_an_error_event_that_is_not_an_expiry_resumes_the_watch(api: FakeApi) -> None:
    streams = 0

    async def broken(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(line("ERROR", {"code": 500, "reason": "InternalError", "message": "etcd"}))
        return response

    original = api._watch

    async def watch(request: web.Request, call: Call) -> web.StreamResponse:
        nonlocal streams
        streams += 1
        return await (broken(request) if streams <= 2 else original(request, call))

    api._watch = watch  # type: ignore[method-assign]
    async with running(api) as state:
        await eventually(lambda: streams == 3)
        api.put(PATH, config_map("a"))
        await eventually(lambda: state.names() == ["a"])
    assert state.informer.relists == {"start": 1}


async def test_a_silent_watch_is_cut_and_resumed(api: FakeApi) -> None:
    streams = 0
    original = api._watch

    async def silent(request: web.Request, call: Call) -> web.StreamResponse:
        nonlocal streams
        streams += 1
        if streams > 1:
            return await original(request, call)
        response = web.StreamResponse()
        await response.prepare(request)
        await asyncio.sleep(30)
        return response

    api._watch = silent  # type: ignore[method-assign]
    async with running(api, timeout_seconds=lambda: 0, grace=0.05) as state:
        await eventually(lambda: streams >= 2)
        api.put(PATH, config_map("a"))
        await eventually(lambda: state.names() == ["a"])
    assert state.informer.relists == {"start": 1}


async def test_events_survive_any_cut_of_the_bytes_and_truncated_lines_are_not_events(api: FakeApi) -> None:
    item = {**config_map("grüße"), "data": {"text": "Ähre 训练 🚂"}}
    item["metadata"]["resourceVersion"] = "50"
    payload = json.dumps({"type": "ADDED", "object": item}, ensure_ascii=False).encode() + b"\n"
    truncated = line(
        "ADDED", {**config_map("half"), "metadata": {"name": "half", "namespace": "ns", "resourceVersion": "51"}}
    )[:-9]

    async def pieces(request: web.Request, call: Call) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        if int(request.query["resourceVersion"]) >= 50:
            await asyncio.sleep(30)
        for start in range(0, len(payload), 3):
            await response.write(payload[start : start + 3])
            await asyncio.sleep(0)
        await response.write(truncated)
        return response

    api._watch = pieces  # type: ignore[method-assign]
    async with running(api) as state:
        await eventually(lambda: state.names())
        assert state.informer.store.get("ns", "grüße")["data"] == {"text": "Ähre 训练 🚂"}  # type: ignore[index]
        await asyncio.sleep(0.05)
        assert state.names() == ["grüße"]


async def test_repeated_and_late_events_are_delivered_once(api: FakeApi) -> None:
    def versioned(version: int, text: str) -> dict[str, Any]:
        item = config_map("a", text=text)
        item["metadata"]["resourceVersion"] = str(version)
        return item

    sent = [
        ("ADDED", versioned(20, "x")),
        ("ADDED", versioned(20, "x")),
        ("MODIFIED", versioned(22, "z")),
        ("MODIFIED", versioned(21, "y")),
    ]

    async def repeat(request: web.Request, call: Call) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        if int(request.query["resourceVersion"]) < 20:
            for kind, item in sent:
                await response.write(line(kind, item))
        await asyncio.sleep(30)
        return response

    api._watch = repeat  # type: ignore[method-assign]
    async with running(api) as state:
        await eventually(lambda: len(state.changes) == 2)
        await asyncio.sleep(0.02)
    assert state.changes == ["added a", "modified a"]
    assert state.informer.store.get("ns", "a")["data"] == {"text": "z"}  # type: ignore[index]


async def test_a_server_restored_from_a_backup_is_believed(api: FakeApi) -> None:
    api.server.version = 1000
    api.put(PATH, config_map("lost"))
    async with running(api) as state:
        await eventually(lambda: state.informer.synced)
        for key in api.objects:
            api.lose(*key)
        api.lose_events()
        api.server.version = 100
        api.put(PATH, config_map("kept"))
        message = "Too large resource version: 1001, current: 101"
        future = lambda request: int(request.query.get("resourceVersion") or 0) > 1000  # noqa: E731
        api.fault = lambda fake, request: error(504, "Timeout", message) if future(request) else None
        api.cut_watches()
        await eventually(lambda: state.names() == ["kept"])
        api.put(PATH, config_map("next"))
        await eventually(lambda: state.names() == ["kept", "next"])


async def test_a_failing_handler_does_not_stop_the_informer(api: FakeApi, caplog: pytest.LogCaptureFixture) -> None:
    async with running(api) as state:

        def fail(change: StoreChange) -> None:
            raise RuntimeError("boom")

        state.informer.subscribe(fail)
        api.put(PATH, config_map("a"))
        await eventually(lambda: state.names() == ["a"])
        api.put(PATH, config_map("b"))
        await eventually(lambda: state.names() == ["a", "b"])
    assert "boom" in caplog.text


POISON: list[Any] = [
    {"metadata": {"namespace": "ns"}},
    {"metadata": None},
    {"metadata": {"name": ["a"], "namespace": "ns", "resourceVersion": "10"}},
    {"metadata": {"name": "a", "namespace": "ns", "resourceVersion": "x"}},
    {"metadata": {"name": "a", "namespace": "ns"}},
    None,
    [],
    "text",
]


@pytest.mark.parametrize("kind", ["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR", "WHATEVER", None, {}])
async def test_no_event_of_any_shape_ends_the_informer(api: FakeApi, kind: Any) -> None:
    streams = 0
    original = api._watch

    async def watch(request: web.Request, call: Call) -> web.StreamResponse:
        nonlocal streams
        streams += 1
        if streams > len(POISON):
            return await original(request, call)
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(line(kind, POISON[streams - 1]))
        return response

    api._watch = watch  # type: ignore[method-assign]
    async with running(api) as state:
        await eventually(lambda: streams > len(POISON))
        api.put(PATH, config_map("b"))
        await eventually(lambda: state.names() == ["b"])


async def test_one_object_that_cannot_be_taken_in_hides_no_other(
    api: FakeApi, caplog: pytest.LogCaptureFixture
) -> None:
    """A JobSet with `replicatedJobs: [{name: a, template: {}}]` once ended every replica."""
    api.put(PATH, config_map("poison"))
    api.put(PATH, config_map("good", x="1"))

    def strict(item: dict[str, Any]) -> dict[str, Any]:
        return {**item, "x": item["data"]["x"]}

    async with running(api, transform=strict) as state:
        await eventually(lambda: state.informer.synced)
        assert state.names() == ["good"]
        api.put(PATH, config_map("good", x="2"))
        api.put(PATH, config_map("poison", y="1"))
        api.put(PATH, config_map("later", x="1"))
        await eventually(lambda: "later" in state.names())
        assert state.names() == ["good", "later"]
        assert (list(state.informer.store.skipped), state.informer.store.skips) == ([("ns", "poison")], 2)
        api.put(PATH, config_map("good"))
        await eventually(lambda: state.names() == ["later"])
        api.put(PATH, config_map("good", x="3"))
        await eventually(lambda: state.names() == ["good", "later"])
    assert state.changes[-2:] == ["deleted good", "added good"]
    assert caplog.text.count("ns/poison") == 1
    assert state.informer.relists == {"start": 1}


async def test_an_object_nested_deeper_than_the_decoder_reads_hides_no_other(api: FakeApi) -> None:
    """The API server takes 10,000 levels in a field without a schema."""
    deep = '[{"x": ["[", ' * 700 + '"]}\\\\\\""' + "]}]" * 700
    plain = config_map("deep", x="1")
    plain["metadata"]["resourceVersion"] = "12"
    text = json.dumps({**plain, "deep": 0}).replace('"deep": 0', f'"deep": {deep}')
    flat = json.dumps(config_map("flat"))
    listed = (
        f'{{"metadata": {{"resourceVersion": "11"}}, "items": [{text.replace(chr(34) + "12", chr(34) + "9")}, {flat}]}}'
    )

    async def watch(request: web.Request, call: Call) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        if request.query["resourceVersion"] == "11":
            await response.write(f'{{"type": "MODIFIED", "object": {text}}}\n'.encode())
        await asyncio.sleep(30)
        return response

    api._watch = watch  # type: ignore[method-assign]
    api.fault = lambda fake, request: None if "watch" in request.query else web.Response(text=listed)
    async with running(api) as state:
        await eventually(lambda: state.informer.synced)
        assert state.names() == ["deep", "flat"]
        await eventually(lambda: state.informer.store.observed == 12)
    assert state.changes == ["added deep", "added flat", "modified deep"]


@pytest.mark.parametrize(
    "answer", ['{"items": [1]}', '{"items": 7}', '{"metadata": 3}', '{"metadata": {"resourceVersion": "x"}}']
)
async def test_a_list_of_unexpected_shape_is_tried_again(api: FakeApi, answer: str) -> None:
    answers = [web.Response(text=answer)]
    api.fault = lambda fake, request: answers.pop() if answers else None
    async with running(api) as state:
        await eventually(lambda: state.informer.synced)
    assert state.informer.errors == 1
    assert state.informer.relists == {"start": 1, "error": 1}


async def test_an_unreadable_event_is_not_met_again_and_again(api: FakeApi) -> None:
    original = api._watch

    async def watch(request: web.Request, call: Call) -> web.StreamResponse:
        if int(request.query["resourceVersion"]) >= 15:
            return await original(request, call)
        api.server.version = 15
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b'{"type":"ADDED","object":\n')
        return response

    api._watch = watch  # type: ignore[method-assign]
    async with running(api) as state:
        await eventually(lambda: state.informer.relists["unreadable"])
        api.put(PATH, config_map("a"))
        await eventually(lambda: state.names() == ["a"])
    assert state.informer.relists["unreadable"] == 1


async def test_after_a_refresh_the_store_holds_what_the_server_holds_however_far_the_watch_lags(api: FakeApi) -> None:
    for name in ("stays", "changes", "goes", "again"):
        api.put(PATH, config_map(name, x="1"))
    async with running(api, page_size=2) as state:
        await eventually(lambda: len(state.names()) == 4)
        api.freeze_watches()
        api.put(PATH, config_map("changes", x="2"))
        api.remove(PATH, "ns", "goes")
        api.remove(PATH, "ns", "again")
        api.put(PATH, config_map("again", x="3"))
        api.put(PATH, config_map("comes", x="4"))
        api.put(PATH, config_map("passes"))
        api.remove(PATH, "ns", "passes")
        state.changes.clear()
        await state.informer.refresh()
        assert {item["metadata"]["name"]: item["data"]["x"] for item in state.informer.store} == {
            "stays": "1",
            "changes": "2",
            "again": "3",
            "comes": "4",
        }
        assert sorted(state.changes) == ["added comes", "deleted goes", "modified again", "modified changes"]
        assert not any("resourceVersion" in path for _, path in api.requests if "watch" not in path)
        api.thaw_watches()
        api.put(PATH, config_map("last"))
        await eventually(lambda: "last" in state.names())
    assert state.changes[4:] == ["added last"]
    assert state.informer.relists == {"start": 1, "refresh": 1}


async def test_a_refresh_does_not_bring_back_what_the_watch_removed_while_it_was_under_way(api: FakeApi) -> None:
    for number in range(4):
        api.put(PATH, config_map(f"c{number}"))
    async with running(api, page_size=2) as state:
        await eventually(lambda: state.informer.synced)
        reached, go_on = asyncio.Event(), asyncio.Event()
        original = api.answer

        async def slow(request: web.Request) -> web.StreamResponse:
            answer = await original(request)
            if "continue" in request.query:
                reached.set()
                await go_on.wait()
            return answer

        api.answer = slow  # type: ignore[method-assign]
        refreshing = asyncio.create_task(state.informer.refresh())
        await reached.wait()
        api.remove(PATH, "ns", "c3")
        api.put(PATH, config_map("newer"))
        await eventually(lambda: "newer" in state.names() and "c3" not in state.names())
        go_on.set()
        await refreshing
        assert state.names() == ["c0", "c1", "c2", "newer"]
        assert state.changes[-2:] == ["deleted c3", "added newer"]


async def test_a_refresh_heals_a_watch_that_lost_an_event(api: FakeApi) -> None:
    async with running(api) as state:
        await eventually(lambda: state.informer.synced)
        api.put(PATH, config_map("lost"))
        api.lose_events()
        await state.informer.refresh()
        assert state.names() == ["lost"]


async def test_a_refresh_waits_out_errors_and_knows_what_is_not_served(api: FakeApi) -> None:
    async with running(api) as state:
        await eventually(lambda: state.informer.synced)
        answers = [error(500, "InternalError", ""), web.Response(text="<html>"), web.Response(text="{}")]
        api.fault = lambda fake, request: answers.pop() if answers and "watch" not in request.query else None
        api.freeze_watches()
        api.put(PATH, config_map("a"))
        await state.informer.refresh()
        assert state.names() == ["a"]
        assert not answers
        api.unserved.add("configmaps")
        api.cut_watches()
        await asyncio.wait_for(state.informer.refresh(), 5)
        assert state.informer.missing
        assert state.names() == []


async def test_an_optional_resource_that_keeps_failing_settles_and_is_complete_once_it_recovers(api: FakeApi) -> None:
    api.put(PATH, config_map("a"))
    api.fault = lambda fake, request: error(500, "InternalError", "conversion webhook failed")
    async with running(api, settle_after=0.1) as optional, running(api) as required:
        await eventually(lambda: optional.informer.settled)
        assert not optional.informer.synced
        assert not required.informer.settled
        api.fault = None
        await eventually(lambda: optional.informer.synced and required.informer.synced)
        assert optional.changes == ["added a"]
