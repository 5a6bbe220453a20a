"""Queues that the platform closes are closed with Commands, and opened again when they may take jobs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from tests.controller.harness import existing
from tests.kube.fake_api import FakeApi, error, eventually
from trainyard.controller.queue_states import CLOSED_ANNOTATION, QueueStates
from trainyard.kube.backoff import Backoff
from trainyard.kube.informer import Informer
from trainyard.kube.training_kinds import PLATFORMS

QUEUE_PATH = "/apis/scheduling.volcano.sh/v1beta1/queues"
PLATFORM_PATH = "/apis/trainyard.dev/v1alpha1/platforms"
COMMAND_PATH = "/apis/bus.volcano.sh/v1alpha1/commands"
HOME = "kubeflow-system"


class Volcano:
    """Carries out Commands as Volcano's controller does: at once, or when `paused` ends."""

    def __init__(self, api: FakeApi) -> None:
        self.api, self.paused, self.seen = api, False, list[str]()

    def __call__(self, api: FakeApi) -> None:
        for command in list(api.of("commands")) if not self.paused else ():
            self.seen.append(f"{command['action']} {command['target']['name']}")
            api.remove(COMMAND_PATH, HOME, command["metadata"]["name"])
            queue = existing(api, "queues", command["target"]["name"])
            state = "Open" if command["action"] == "OpenQueue" else "Closed"
            api.put(QUEUE_PATH, {**queue, "status": {"state": state}})


@asynccontextmanager
async def running(api: FakeApi) -> AsyncIterator[Volcano]:
    volcano = api.after_write = Volcano(api)
    async with api.client() as client:
        platforms = Informer(client, PLATFORMS)
        states = QueueStates(client, platforms, namespace=HOME, backoff=Backoff(0.01, 0.05))
        tasks = [asyncio.create_task(each) for each in (platforms.run(), states.run())]
        try:
            yield volcano
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


def queue(api: FakeApi, name: str, state: str | None = "Open", **annotations: str) -> None:
    metadata: dict[str, Any] = {"name": name, "annotations": annotations}
    api.put(QUEUE_PATH, {"metadata": metadata, "spec": {}, "status": {"state": state} if state else {}})


def platform(api: FakeApi, *closed: str, retired: tuple[str, ...] = ()) -> None:
    spec = {"closedQueues": list(closed), "retiredQueues": list(retired)}
    api.put(PLATFORM_PATH, {"metadata": {"name": "platform"}, "spec": spec})


def state(api: FakeApi, name: str) -> Any:
    found = existing(api, "queues", name)
    return found["status"].get("state")


def annotated(api: FakeApi, name: str) -> bool:
    found = existing(api, "queues", name)
    return CLOSED_ANNOTATION in (found["metadata"].get("annotations") or {})


async def test_a_queue_that_the_platform_closes_is_closed(api: FakeApi) -> None:
    queue(api, "vision")
    queue(api, "language")
    platform(api, "vision")
    async with running(api) as volcano:
        await eventually(lambda: state(api, "vision") == "Closed")
        assert annotated(api, "vision")
        assert (state(api, "language"), volcano.seen) == ("Open", ["CloseQueue vision"])


async def test_a_retired_queue_is_closed_too(api: FakeApi) -> None:
    queue(api, "vision")
    platform(api, retired=("vision",))
    async with running(api):
        await eventually(lambda: state(api, "vision") == "Closed")


async def test_a_queue_is_opened_when_it_is_not_named_any_more(api: FakeApi) -> None:
    queue(api, "vision")
    platform(api, "vision")
    async with running(api) as volcano:
        await eventually(lambda: state(api, "vision") == "Closed")
        platform(api)
        await eventually(lambda: state(api, "vision") == "Open" and not annotated(api, "vision"))
        assert volcano.seen == ["CloseQueue vision", "OpenQueue vision"]


async def test_a_removed_queue_stays_closed_until_it_is_deleted(api: FakeApi) -> None:
    queue(api, "vision")
    platform(api, "vision")
    async with running(api) as volcano:
        await eventually(lambda: state(api, "vision") == "Closed")
        platform(api, retired=("vision",))
        queue(api, "language")
        platform(api, "language", retired=("vision",))
        await eventually(lambda: state(api, "language") == "Closed")
        assert (state(api, "vision"), annotated(api, "vision")) == ("Closed", True)
        assert volcano.seen == ["CloseQueue vision", "CloseQueue language"]


async def test_a_queue_closed_by_another_client_stays_closed(api: FakeApi) -> None:
    queue(api, "vision", "Closed")
    queue(api, "language")
    platform(api, "language")
    async with running(api) as volcano:
        await eventually(lambda: state(api, "language") == "Closed")
        assert volcano.seen == ["CloseQueue language"]


async def test_a_queue_is_closed_once_it_is_open(api: FakeApi) -> None:
    queue(api, "vision", None)
    platform(api, "vision")
    async with running(api) as volcano:
        await eventually(lambda: ("GET", f"{QUEUE_PATH}?limit=500") in api.requests or api.requests)
        assert volcano.seen == []
        queue(api, "vision")
        await eventually(lambda: state(api, "vision") == "Closed")


async def test_a_command_under_way_is_not_sent_twice_and_not_forgotten(api: FakeApi) -> None:
    queue(api, "vision")
    platform(api, "vision")
    async with running(api) as volcano:
        volcano.paused = True
        await eventually(lambda: api.of("commands"))
        platform(api)
        await eventually(lambda: sum(method == "GET" and "commands/" in path for method, path in api.requests) > 1)
        assert annotated(api, "vision")
        volcano.paused = False
        volcano(api)
        await eventually(lambda: state(api, "vision") == "Open" and not annotated(api, "vision"))
        assert volcano.seen == ["CloseQueue vision", "OpenQueue vision"]


async def test_a_new_leader_whose_watch_hangs_opens_no_queue_that_is_to_be_closed(api: FakeApi) -> None:
    queue(api, "vision")
    platform(api)
    async with api.client() as client:
        platforms = Informer(client, PLATFORMS)
        watch = asyncio.create_task(platforms.run())
        await platforms.wait_settled()
        watch.cancel()
        platform(api, "vision", "language")
        queue(api, "vision", "Closed", **{CLOSED_ANNOTATION: "true"})  # by the former leader
        queue(api, "language")
        volcano = api.after_write = Volcano(api)
        leading = asyncio.create_task(QueueStates(client, platforms, namespace=HOME).run())
        await eventually(lambda: state(api, "language") == "Closed")
        assert volcano.seen == ["CloseQueue language"]
        for task in (watch, leading):
            task.cancel()
        await asyncio.gather(watch, leading, return_exceptions=True)


async def test_without_volcano_nothing_is_asked_of_it(api: FakeApi) -> None:
    api.unserved.add("queues")
    platform(api, "vision")
    async with running(api):
        await eventually(lambda: any("queues" in path for _, path in api.requests))
        assert api.of("commands") == []


async def test_a_queue_that_cannot_be_annotated_does_not_keep_the_others_open(api: FakeApi) -> None:
    for name in ("a", "b", "c"):
        queue(api, name)
    platform(api, "a", "b", "c")

    def refuse(fake: FakeApi, request: web.Request) -> web.StreamResponse | None:
        refused = request.method == "PATCH" and request.path.endswith("/queues/a")
        return error(403, "Forbidden", "denied by a webhook") if refused else None

    api.fault = refuse
    async with running(api) as volcano:
        await eventually(lambda: state(api, "b") == state(api, "c") == "Closed")
        assert state(api, "a") == "Open"
        api.fault = None
        await eventually(lambda: state(api, "a") == "Closed")
        assert set(volcano.seen) == {"CloseQueue a", "CloseQueue b", "CloseQueue c"}, "a lagging watch repeats some"


async def test_a_platform_that_cannot_be_read_is_logged_and_tried_again(
    api: FakeApi, caplog: pytest.LogCaptureFixture
) -> None:
    queue(api, "vision")
    api.put(PLATFORM_PATH, {"metadata": {"name": "platform"}, "spec": {"closedQueues": 1}})
    async with running(api):
        await eventually(lambda: "states of queues: " in caplog.text)
        platform(api, "vision")
        await eventually(lambda: state(api, "vision") == "Closed")


async def test_a_platform_without_a_spec_closes_no_queue(api: FakeApi) -> None:
    queue(api, "vision", "Closed", **{CLOSED_ANNOTATION: "true"})
    api.put(PLATFORM_PATH, {"metadata": {"name": "platform"}})
    async with running(api):
        await eventually(lambda: state(api, "vision") == "Open" and not annotated(api, "vision"))
