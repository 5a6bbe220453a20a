from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from tests.kube.fake_api import FakeApi, error, eventually
from trainyard.kube.api_errors import FencedError
from trainyard.kube.client import Client
from trainyard.kube.leader import LeaderElector, LeadershipLostError
from trainyard.kube.resource import Resource

CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap")
NAME, NAMESPACE = "trainer.kubeflow.org", "kubeflow-system"


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def candidate(client: Client, identity: str, clock: Callable[[], float], **options: Any) -> LeaderElector:
    return LeaderElector(client, name=NAME, namespace=NAMESPACE, identity=identity, clock=clock, **options)


@asynccontextmanager
async def leading(api: FakeApi) -> AsyncIterator[tuple[Client, Clock, LeaderElector, LeaderElector]]:
    """Yield a client, the clock of two candidates, the one that leads, and the one that waits."""
    clock = Clock()
    async with api.client() as client:
        first = candidate(client, "a", clock)
        await first.acquire()
        yield client, clock, first, candidate(client, "b", clock)


async def test_one_candidate_leads_and_the_other_waits(api: FakeApi) -> None:
    async with leading(api) as (_, _, first, second):
        assert first.is_leader()
        assert not await second._attempt()
        assert not second.is_leader()
        lease = api.find("leases", NAME, NAMESPACE)
        assert lease is not None
        assert lease["spec"]["holderIdentity"] == "a"
        assert lease["spec"]["leaseDurationSeconds"] == 15


async def test_a_lease_is_taken_over_only_after_it_was_seen_unrenewed_for_its_whole_time(api: FakeApi) -> None:
    async with leading(api) as (_, clock, first, second):
        assert not await second._attempt()
        clock.now += 9
        await first._attempt()
        clock.now += 9
        assert not await second._attempt()
        clock.now += 14
        assert not first.is_leader()
        assert not await second._attempt()
        clock.now += 2
        assert await second._attempt()
        assert second.is_leader()
        lease = api.find("leases", NAME, NAMESPACE)
        assert lease is not None
        assert lease["spec"]["leaseTransitions"] == 1


async def test_a_leader_that_was_paused_does_not_write_and_gives_up(api: FakeApi) -> None:
    async with leading(api) as (client, clock, first, second):
        assert not await second._attempt()
        writer = client.fenced(first.remaining)
        clock.now += 16
        assert await second._attempt()
        with pytest.raises(FencedError):
            await writer.create(CONFIG_MAPS, {"metadata": {"name": "x", "namespace": "ns"}})
        with pytest.raises(LeadershipLostError):
            await first.hold()
        assert api.find("configmaps", "x", "ns") is None


async def test_a_leader_that_cannot_renew_gives_up_before_others_may_start(api: FakeApi) -> None:
    clock = Clock()
    changes: list[bool] = []
    async with api.client() as client:
        elector = candidate(client, "a", clock, retry_seconds=0.001, on_change=changes.append)
        await elector.acquire()

        def fail(fake: FakeApi, request: object) -> object:
            clock.now += 3
            return error(503, "ServiceUnavailable", "down")

        api.fault = fail  # type: ignore[assignment]
        started = clock.now
        with pytest.raises(LeadershipLostError):
            await asyncio.wait_for(elector.hold(), 5)
        assert clock.now - started < 15
    assert changes == [True, False]


async def test_of_two_who_see_no_lease_one_leads(api: FakeApi) -> None:
    clock = Clock()
    async with api.client() as client:
        electors = [candidate(client, name, clock) for name in "abcd"]
        won = await asyncio.gather(*(elector._attempt() for elector in electors))
    assert sum(won) == 1
    assert sum(elector.is_leader() for elector in electors) == 1


async def test_a_released_lease_is_taken_at_once(api: FakeApi) -> None:
    async with leading(api) as (_, _, first, second):
        await first.release()
        assert not first.is_leader()
        assert await second._attempt()
        await first.release()
        assert second.is_leader()


async def test_a_missing_namespace_is_waited_for(api: FakeApi) -> None:
    api.fault = lambda fake, request: (
        error(404, "NotFound", "namespaces not found") if request.method == "POST" else None
    )
    async with api.client() as client:
        elector = candidate(client, "a", Clock())
        assert not await elector._attempt()
        api.fault = None
        assert await elector._attempt()


async def test_a_renewal_waits_for_no_other_request(api: FakeApi) -> None:
    """64 slots full of throttled or slow requests once let a leader lose its lease."""
    original = api.answer
    stuck = 0

    async def slow(request: web.Request) -> web.StreamResponse:
        nonlocal stuck
        if "configmaps" in request.path:
            stuck += 1
            await asyncio.sleep(30)
        return await original(request)

    api.answer = slow  # type: ignore[method-assign]
    async with api.client(concurrency=4) as client:
        elector = candidate(client, "a", Clock())
        busy = [asyncio.create_task(client.find(CONFIG_MAPS, f"c{n}", namespace="ns")) for n in range(9)]
        await eventually(lambda: stuck == 4)
        await asyncio.wait_for(elector.acquire(), 2)
        for task in busy:
            task.cancel()


async def test_the_remaining_time_counts_from_the_sending_of_the_last_renewal(api: FakeApi) -> None:
    clock = Clock()
    async with api.client() as client:
        elector = candidate(client, "a", clock)
        assert elector.remaining() == 0
        original = api.answer

        async def late(request: web.Request) -> web.StreamResponse:
            clock.now += 1
            return await original(request)

        api.answer = late  # type: ignore[method-assign]
        assert await elector._attempt()
        assert elector.remaining() == 8
        clock.now += 20
        assert elector.remaining() == 0


async def test_a_leader_without_answers_gives_up_at_its_deadline_and_not_later(api: FakeApi) -> None:
    async with api.client() as client:
        elector = candidate(client, "a", time.monotonic, lease_seconds=5, renew_seconds=0.6, retry_seconds=0.1)
        await elector.acquire()
        attempts = 0

        async def silent(request: web.Request) -> web.StreamResponse:
            nonlocal attempts
            attempts += 1
            await asyncio.sleep(30)
            raise AssertionError

        api.answer = silent  # type: ignore[method-assign]
        started = time.monotonic()
        with pytest.raises(LeadershipLostError):
            await elector.hold()
        assert 0.4 < time.monotonic() - started < 3
        assert attempts >= 2


async def test_a_lease_of_odd_content_does_not_end_a_candidate(api: FakeApi) -> None:
    spec = {"holderIdentity": "b", "leaseDurationSeconds": "soon", "leaseTransitions": "x"}
    api.put("/apis/coordination.k8s.io/v1/leases", {"metadata": {"name": NAME, "namespace": NAMESPACE}, "spec": spec})
    async with api.client() as client:
        assert not await candidate(client, "a", Clock())._attempt()


LEASES = "/apis/coordination.k8s.io/v1/leases"


async def test_a_deleted_lease_is_not_created_while_its_leader_may_still_write(api: FakeApi) -> None:
    async with leading(api) as (_, clock, first, second):
        assert not await second._attempt()
        clock.now += 9
        await first._attempt()
        clock.now += 5
        api.remove(LEASES, NAMESPACE, NAME)
        assert not await second._attempt(), "a renewal that it did not observe"
        clock.now += 4
        assert not await second._attempt()
        assert first.is_leader()
        clock.now += 12
        assert not first.is_leader()
        assert await second._attempt()


async def test_a_leader_creates_its_deleted_lease_again(api: FakeApi) -> None:
    clock = Clock()
    async with api.client() as client:
        first, second = candidate(client, "a", clock), candidate(client, "b", clock)
        await second.acquire()
        assert not await first._attempt()
        await second.release()
        assert await first._attempt()
        api.remove(LEASES, NAMESPACE, NAME)
        clock.now += 2
        assert await first._attempt()
        assert not await second._attempt()
        lease = api.find("leases", NAME, NAMESPACE)
        assert lease is not None
        assert lease["spec"]["holderIdentity"] == "a"


@pytest.mark.parametrize("holder", ["", None])
@pytest.mark.parametrize("restarted", [False, True], ids=["running", "restarted"])
async def test_a_lease_whose_holder_was_removed_is_not_acquired_while_its_leader_may_still_write(
    api: FakeApi, holder: str | None, restarted: bool
) -> None:
    async with leading(api) as (_, clock, first, second):
        if not restarted:
            assert not await second._attempt()
        lease = api.find("leases", NAME, NAMESPACE)
        assert lease is not None
        api.put(LEASES, {**lease, "spec": {**lease["spec"], "holderIdentity": holder}})
        clock.now += 9
        assert not await second._attempt()
        assert first.is_leader()
        clock.now += 14
        assert not await second._attempt()
        clock.now += 2
        assert await second._attempt()


async def test_a_leader_whose_name_was_removed_from_the_lease_renews_it(api: FakeApi) -> None:
    async with leading(api) as (_, clock, first, second):
        lease = api.find("leases", NAME, NAMESPACE)
        assert lease is not None
        api.put(LEASES, {**lease, "spec": {}})
        assert not await second._attempt()
        clock.now += 2
        assert await first._attempt()
        assert not await second._attempt()
        assert first.is_leader()


async def test_a_released_lease_is_acquired_at_once_also_after_it_was_deleted(api: FakeApi) -> None:
    async with leading(api) as (client, clock, first, second):
        assert not await second._attempt()
        await first.release()
        assert await second._attempt()
        await second.release()
        third = candidate(client, "c", clock)
        api.remove(LEASES, NAMESPACE, NAME)
        assert await third._attempt()
