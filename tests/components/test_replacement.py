"""Deletion of objects that are replaced: by uid, and awaited."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from components.common.replacement import delete_replaced
from tests.kube.fake_api import FakeApi, serving
from trainyard.errors import TrainyardError
from trainyard.kube.kinds import DEPLOYMENTS
from trainyard.platform.takeover.takeover import Takeover, TakeoverAction

PATH, NAMESPACE, NAME = "/apis/apps/v1/deployments", "volcano-system", "volcano-scheduler"


@pytest.fixture
async def api() -> AsyncIterator[FakeApi]:
    async with serving(FakeApi()) as server:
        yield server


def stored(api: FakeApi) -> dict[str, Any]:
    metadata = {"name": NAME, "namespace": NAMESPACE}
    return api.put(PATH, {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata})


def planned(uid: str) -> Takeover:
    return Takeover(TakeoverAction.REPLACE, "apps/v1", "Deployment", NAMESPACE, NAME, uid=uid)


async def test_a_replaced_object_is_gone_before_its_successor_is_created(api: FakeApi) -> None:
    bodies: list[dict[str, Any]] = []
    body, reads = stored(api), 0

    def ends_after_its_pods(fake: FakeApi, request: Any) -> None:
        nonlocal reads
        reads += request.method == "GET"
        if reads == 3 and fake.find("deployments", NAME, NAMESPACE):
            fake.remove(PATH, NAMESPACE, NAME)

    async with api.client() as client:
        api.fault = ends_after_its_pods
        send = client.request

        async def held(method: str, path: str, **options: Any) -> Any:
            if method != "DELETE":
                return await send(method, path, **options)
            bodies.append(json.loads(json.dumps(options["body"])))
            return {}

        client.request = held  # type: ignore[method-assign]
        await delete_replaced(client, DEPLOYMENTS, planned(body["metadata"]["uid"]))
    assert api.find("deployments", NAME, NAMESPACE) is None
    (sent,) = bodies
    assert (sent["propagationPolicy"], sent["preconditions"]) == ("Foreground", {"uid": body["metadata"]["uid"]})


async def test_another_object_of_the_same_name_is_not_deleted(api: FakeApi) -> None:
    stored(api)
    async with api.client() as client:
        with pytest.raises(TrainyardError, match="has been created again since the takeover was planned"):
            await delete_replaced(client, DEPLOYMENTS, planned("another"))
    assert api.find("deployments", NAME, NAMESPACE) is not None


async def test_an_object_that_its_owner_creates_again_fails(api: FakeApi) -> None:
    body = stored(api)
    api.after_write = lambda fake: None if fake.find("deployments", NAME, NAMESPACE) else stored(fake) and None
    async with api.client() as client:
        with pytest.raises(TrainyardError, match="created again by another owner"):
            await delete_replaced(client, DEPLOYMENTS, planned(body["metadata"]["uid"]))


async def test_a_deletion_that_does_not_end_names_the_finalizers(api: FakeApi) -> None:
    body = stored(api)
    api.put(PATH, {**body, "metadata": {**body["metadata"], "finalizers": ["example.com/held"]}})
    async with api.client() as client:
        send = client.request

        async def ignored(method: str, path: str, **options: Any) -> Any:
            return {} if method == "DELETE" else await send(method, path, **options)

        client.request = ignored  # type: ignore[method-assign]
        with pytest.raises(TrainyardError, match=r"finalizers: example\.com/held"):
            await delete_replaced(client, DEPLOYMENTS, planned(body["metadata"]["uid"]), patience=0)


async def test_an_object_that_is_gone_already_needs_no_deletion(api: FakeApi) -> None:
    async with api.client() as client:
        await delete_replaced(client, DEPLOYMENTS, planned("gone"))
