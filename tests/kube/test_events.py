from __future__ import annotations

import asyncio
import datetime
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from tests.kube.fake_api import FakeApi, error, eventually
from tests.support import own_records
from trainyard.kube.backoff import Backoff
from trainyard.kube.event_recorder import EventRecorder
from trainyard.kube.resource import Resource

JOB = {
    "apiVersion": "trainer.kubeflow.org/v1alpha1",
    "kind": "TrainJob",
    "metadata": {"name": "job", "namespace": "team", "uid": "u1", "resourceVersion": "4"},
}


class Clock:
    def __init__(self) -> None:
        self.now = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)

    def __call__(self) -> datetime.datetime:
        return self.now


async def write(api: FakeApi, *steps: object) -> None:
    clock = Clock()
    async with api.client() as client:
        recorder = EventRecorder(client, component="trainjob_controller", host="h", clock=clock)
        task = asyncio.create_task(recorder.run())
        for step in steps:
            if isinstance(step, datetime.timedelta):
                clock.now += step
            elif callable(step):
                step()
            else:
                recorder.warning(JOB, "Reason", str(step))
            await recorder.flush()
        task.cancel()


async def test_an_event_is_visible_to_clients_that_need_a_first_timestamp(api: FakeApi) -> None:
    await write(api, "what happened")
    [event] = api.of("events")
    assert event["apiVersion"] == "v1"
    assert event["metadata"]["namespace"] == "team"
    assert event["involvedObject"] == {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "name": "job",
        "namespace": "team",
        "uid": "u1",
        "resourceVersion": "4",
    }
    assert (event["type"], event["reason"], event["message"], event["count"]) == (
        "Warning",
        "Reason",
        "what happened",
        1,
    )
    assert event["firstTimestamp"] == event["lastTimestamp"] == "2026-01-01T00:00:00Z"


async def test_a_repeated_event_is_counted(api: FakeApi) -> None:
    await write(api, "again", datetime.timedelta(seconds=5), "again", "again", "another")
    first, second = sorted(api.of("events"), key=lambda event: event["message"])
    assert (first["message"], first["count"], first["lastTimestamp"]) == ("again", 3, "2026-01-01T00:00:05Z")
    assert first["firstTimestamp"] == "2026-01-01T00:00:00Z"
    assert (second["message"], second["count"]) == ("another", 1)


async def test_an_event_the_server_forgot_is_written_again(api: FakeApi) -> None:
    def forget() -> None:
        for key in api.objects:
            api.lose(*key)

    await write(api, "again", forget, "again", datetime.timedelta(hours=2), "again")
    assert sorted(event["count"] for event in api.of("events")) == [1, 2]


async def test_a_rejected_event_is_dropped(api: FakeApi) -> None:
    api.fault = lambda fake, request: error(403, "Forbidden", "no")
    await write(api, "lost")
    assert api.of("events") == []


def about(number: int) -> dict[str, Any]:
    metadata = {"name": f"job-{number}", "namespace": "team", "uid": f"u{number}", "resourceVersion": "4"}
    return {**JOB, "metadata": metadata}


@asynccontextmanager
async def recording(
    api: FakeApi, clock: Clock | None = None, remaining: float | None = None, **options: Any
) -> AsyncIterator[EventRecorder]:
    async with api.client(patience=0) as client:
        client = client if remaining is None else client.fenced(lambda: remaining)
        recorder = EventRecorder(client, component="c", clock=clock or Clock(), backoff=Backoff(0.001, 0.01), **options)
        task = asyncio.create_task(recorder.run())
        try:
            yield recorder
            assert not task.done()
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


class Writes:
    """A client that counts what it creates."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    async def create(self, resource: Resource, body: dict[str, Any]) -> dict[str, Any]:
        await asyncio.sleep(0)
        self.names.add(body["involvedObject"]["name"])
        return body


async def test_a_burst_of_events_about_many_objects_arrives() -> None:
    """Those beyond the 4,096 series remembered for counting were lost without a word."""
    client = Writes()
    recorder = EventRecorder(client, component="c")  # type: ignore[arg-type]
    task = asyncio.create_task(recorder.run())
    for number in range(6000):
        recorder.warning(about(number), "Reason", "what happened")
    await recorder.flush()
    task.cancel()
    assert len(client.names) == 6000
    assert (recorder.dropped, recorder.limited) == (0, 0)


async def test_several_events_are_written_at_the_same_time_and_one_series_in_order(api: FakeApi) -> None:
    inside: list[str] = []
    most = 0
    original = api.answer

    async def slow(request: web.Request) -> web.StreamResponse:
        nonlocal most
        name = (await request.json()).get("metadata", {}).get("name") or request.path
        assert name not in inside
        inside.append(name)
        most = max(most, len(inside))
        await asyncio.sleep(0.005)
        answer = await original(request)
        inside.remove(name)
        return answer

    api.answer = slow  # type: ignore[method-assign]
    async with recording(api) as recorder:
        for _ in range(5):
            for number in range(6):
                recorder.warning(about(number), "Reason", "what happened")
            await asyncio.sleep(0.004)
        await recorder.flush()
    assert most == 4
    assert [event["count"] for event in api.of("events")] == [5] * 6


async def test_one_object_cannot_flood(api: FakeApi) -> None:
    clock = Clock()
    async with recording(api, clock) as recorder:
        for number in range(100):
            recorder.warning(JOB, "Reason", f"message {number}")
        recorder.warning(about(2), "Reason", "another object")
        await recorder.flush()
        assert len(api.of("events")) == 25 + 1
        assert recorder.limited == 75
        clock.now += datetime.timedelta(seconds=601)
        for _ in range(3):
            recorder.warning(JOB, "Reason", "message 99")
            await recorder.flush()
    [late] = [event for event in api.of("events") if event["message"] == "message 99"]
    assert late["count"] == 3
    assert len(api.of("events")) == 25 + 1 + 1


async def test_memory_is_bounded_however_many_events_wait(api: FakeApi, caplog: pytest.LogCaptureFixture) -> None:
    api.fault = lambda fake, request: error(503, "ServiceUnavailable", "down")
    async with recording(api, remembered=10, waiting=50) as recorder:
        for number in range(1000):
            recorder.warning(about(number), "Reason", "what happened")
        assert (len(recorder._pending), len(recorder._series), len(recorder._budgets)) == (50, 10, 10)
        assert recorder.dropped == 950
        assert caplog.text.count("too many pending events") == 1
        api.fault = None
        await recorder.flush()
    assert len(api.of("events")) == 50


async def test_a_failed_write_is_tried_again_and_given_up_at_last(api: FakeApi) -> None:
    fails = 3

    def fail(fake: FakeApi, request: web.Request) -> web.StreamResponse | None:
        nonlocal fails
        fails -= 1
        return error(503 if fails % 2 else 429, "ServiceUnavailable", "down") if fails >= 0 else None

    api.fault = fail
    async with recording(api) as recorder:
        recorder.warning(JOB, "Reason", "late")
        await recorder.flush()
        assert [event["message"] for event in api.of("events")] == ["late"]
        fails = 1000
        recorder.warning(JOB, "Reason", "lost")
        await recorder.flush()
        assert 1000 - 12 - 1 <= fails <= 1000 - 12
        assert recorder.dropped == 1
        fails = 0
        recorder.warning(JOB, "Reason", "next")
        await recorder.flush()
    assert sorted(event["message"] for event in api.of("events")) == ["late", "next"]


async def test_a_write_whose_answer_was_lost_is_not_an_error(api: FakeApi) -> None:
    cut = [True]
    original = api.answer

    async def lose(request: web.Request) -> web.StreamResponse:
        answer = await original(request)
        if cut:
            cut.pop()
            assert request.transport is not None
            request.transport.close()
        return answer

    api.answer = lose  # type: ignore[method-assign]
    async with recording(api) as recorder:
        recorder.warning(JOB, "Reason", "once")
        await eventually(lambda: not cut)
        recorder.warning(JOB, "Reason", "once")
        await recorder.flush()
    [event] = api.of("events")
    assert event["count"] == 2
    assert recorder.dropped == 0


async def test_a_process_that_no_longer_leads_drops_what_waits_with_one_line(
    api: FakeApi, caplog: pytest.LogCaptureFixture
) -> None:
    async with recording(api, remaining=0.0) as recorder:
        for number in range(100):
            recorder.warning(about(number), "Reason", "what happened")
        await asyncio.wait_for(recorder.flush(), 5)
        assert recorder.dropped == 100
    assert api.requests == []
    assert len(own_records(caplog)) <= 4
