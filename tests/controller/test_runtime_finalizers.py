from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.controller.harness import CLUSTER_RUNTIMES, TRAINER, existing, runtime
from tests.kube.fake_api import FakeApi, error, eventually
from trainyard.controller.runtime_finalizers import RESOURCE_IN_USE, RuntimeFinalizers
from trainyard.kube.backoff import Backoff
from trainyard.kube.informer import Informer
from trainyard.kube.training_kinds import CLUSTER_TRAINING_RUNTIMES, TRAINING_RUNTIMES

RUNTIMES = f"{TRAINER}/trainingruntimes"


async def test_upstreams_finalizer_is_taken_off_and_others_stay(api: FakeApi) -> None:
    body = runtime()
    body["metadata"]["finalizers"] = ["example.com/mine", RESOURCE_IN_USE]
    api.put(CLUSTER_RUNTIMES, body)
    spaced = {**runtime("spaced"), "kind": "TrainingRuntime"}
    spaced["metadata"] |= {"namespace": "team", "finalizers": [RESOURCE_IN_USE]}
    api.put(RUNTIMES, spaced)
    refusals = 2

    def refuse(fake: FakeApi, request: Any) -> Any:
        nonlocal refusals
        if request.method == "PATCH" and refusals:
            refusals -= 1
            return error(500, "InternalError", "a webhook is away")
        return None

    api.fault = refuse
    async with api.client() as client:
        informers = [Informer(client, resource) for resource in (CLUSTER_TRAINING_RUNTIMES, TRAINING_RUNTIMES)]
        finalizers = RuntimeFinalizers(client, informers, backoff=Backoff(0.01, 0.02))
        tasks = [asyncio.create_task(each.run()) for each in (*informers, finalizers)]
        await eventually(lambda: "finalizers" not in api.find("trainingruntimes", "spaced", "team")["metadata"])  # type: ignore[index]
        await eventually(lambda: len(api.find("clustertrainingruntimes", "torch")["metadata"]["finalizers"]) == 1)  # type: ignore[index]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    left = existing(api, "clustertrainingruntimes", "torch")
    assert left["metadata"]["finalizers"] == ["example.com/mine"]


@pytest.mark.parametrize("finalizers", [None, [], ["example.com/mine"]])
async def test_other_runtimes_are_not_written(api: FakeApi, finalizers: list[str] | None) -> None:
    body = runtime()
    if finalizers is not None:
        body["metadata"]["finalizers"] = finalizers
    api.put(CLUSTER_RUNTIMES, body)
    async with api.client() as client:
        informer = Informer(client, CLUSTER_TRAINING_RUNTIMES)
        following = asyncio.create_task(informer.run())
        await informer.wait_synced()
        assert await RuntimeFinalizers(client, [informer]).step()
        following.cancel()
    assert api.writes == []
