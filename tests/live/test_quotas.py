"""Quotas on kinds that are new to a cluster are waited for until the cluster has counted them."""

from __future__ import annotations

import asyncio
from typing import Any

from aiohttp import web

from tests.kube.fake_api import FakeApi, eventually, serving
from trainyard.cluster_state.quotas import list_uncounted, wait_until_counted

PATH = "/api/v1/resourcequotas"


def quota(namespace: str, stack: str, **used: str) -> dict[str, Any]:
    return {
        "metadata": {"name": "tenant", "namespace": namespace, "labels": {"trainyard.dev/stack": stack}},
        "spec": {"hard": {"pods": "10"}},
        "status": {"used": used},
    }


def test_only_what_no_one_counted_is_named() -> None:
    async def scenario() -> list[str]:
        async with serving(FakeApi()) as api, api.client() as client:
            api.put(PATH, quota("vision", "local", pods="3"))
            api.put(PATH, quota("language", "local"))
            return [item["metadata"]["namespace"] for item in await list_uncounted(client)]

    assert asyncio.run(scenario()) == ["language"]


def test_nothing_to_wait_for_is_said() -> None:
    async def scenario() -> bool:
        async with serving(FakeApi()) as api, api.client() as client:
            api.put(PATH, quota("vision", "local", pods="3"))
            return await wait_until_counted(client)

    assert asyncio.run(scenario()) is False


def test_every_quota_is_waited_for_and_one_that_goes_away_is_not() -> None:
    async def scenario() -> bool:
        async with serving(FakeApi()) as api, api.client() as client:
            for namespace in ("language", "vision"):
                api.put(PATH, quota(namespace, "local"))
            waiting = asyncio.create_task(wait_until_counted(client))
            await eventually(lambda: any("watch=true" in path for _, path in api.requests))
            api.put(PATH, quota("language", "local", pods="0"))
            await eventually(lambda: sum("watch=true" in path for _, path in api.requests) == 2)
            assert not waiting.done()
            api.remove(PATH, "vision", "tenant")
            return await waiting

    assert asyncio.run(scenario()) is True


def test_a_counted_quota_beside_it_does_not_end_the_wait() -> None:
    async def scenario() -> int:
        async with serving(FakeApi()) as api, api.client() as client:
            late = quota("vision", "local")
            late["metadata"]["name"] = "late"
            api.put(PATH, late)
            api.put(PATH, quota("vision", "local"))
            api.put(PATH, quota("vision", "local", pods="0"))
            waiting = asyncio.create_task(wait_until_counted(client))
            await eventually(lambda: any("watch=true" in path for _, path in api.requests))
            await asyncio.sleep(0.1)
            assert not waiting.done()
            api.put(PATH, {**late, "status": {"used": {"pods": "0"}}})
            assert await waiting
            return sum("watch=true" in path for _, path in api.requests)

    assert asyncio.run(scenario()) == 1


def test_a_rejected_watch_is_not_repeated_at_once() -> None:
    async def scenario() -> int:
        async with serving(FakeApi()) as api, api.client() as client:
            api.put(PATH, quota("vision", "local"))
            api.fault = lambda _, request: web.Response(status=403) if "watch" in request.query else None
            waiting = asyncio.create_task(wait_until_counted(client))
            await asyncio.sleep(0.1)
            assert not waiting.done()
            requests = len(api.requests)
            api.put(PATH, quota("vision", "local", pods="0"))
            assert await waiting
            return requests

    assert asyncio.run(scenario()) == 2
