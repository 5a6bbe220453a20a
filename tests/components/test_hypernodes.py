"""Before HyperNodes change, what moves is taken away; what belongs to others is left alone and named."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from components.hooks.hypernodes import HyperNodeMigration
from tests.components.test_webhooks import UNTRUSTED
from tests.kube.fake_api import FakeApi, error, serving
from tests.topology.fabrics import fabric
from trainyard.errors import TrainyardError
from trainyard.kube.training_kinds import HYPER_NODES
from trainyard.local.cluster.provider import ClusterAccess
from trainyard.scheduling.topology.fabric_compiler import compile_fabric

PATH = "/apis/topology.volcano.sh/v1alpha1/hypernodes"


def manifests(spines: dict[str, list[str]]) -> list[dict[str, Any]]:
    domains = [
        {"name": spine, "domains": [{"name": rack, "nodes": [f"{rack}-n"]} for rack in racks]}
        for spine, racks in spines.items()
    ]
    return compile_fabric(fabric(*domains)).hyper_nodes


async def prepare(api: FakeApi, wanted: dict[str, list[str]]) -> None:
    access = ClusterAccess("c", Path("/none"))
    async with api.client() as client:
        await HyperNodeMigration(access, manifests(wanted), "local").prepare(client)


def members(api: FakeApi, name: str) -> list[str]:
    body = api.find(HYPER_NODES.plural, name)
    assert body is not None
    return [member["selector"]["exactMatch"]["name"] for member in body["spec"]["members"]]


@pytest.fixture
async def api() -> AsyncIterator[FakeApi]:
    async with serving(FakeApi()) as fake:
        for body in manifests({"s": ["a", "b"], "t": ["c"]}):
            marks = {"labels": {"trainyard.dev/stack": "local"}, "annotations": {"team": "net"}}
            fake.put(PATH, {**body, "metadata": {**body["metadata"], **marks}})
        yield fake


async def test_a_rack_that_moves_is_taken_from_its_spine_only(api: FakeApi) -> None:
    await prepare(api, {"s": ["a"], "t": ["c", "b"]})
    assert (members(api, "s"), members(api, "t")) == (["a"], ["c"])
    body = api.find(HYPER_NODES.plural, "s")
    assert body is not None
    assert body["metadata"]["annotations"] == {"team": "net"}


async def test_what_only_grows_or_goes_as_a_whole_is_not_touched(api: FakeApi) -> None:
    await prepare(api, {"s": ["a", "b", "d"]})
    assert api.writes == []


async def test_hyper_nodes_of_others_are_left_alone(api: FakeApi) -> None:
    other = {**manifests({"x": ["y"]})[1], "metadata": {"name": "x"}}
    api.put(PATH, other)
    await prepare(api, {"s": ["a"], "t": ["c", "b"]})
    assert members(api, "x") == ["y"]


async def test_one_of_others_that_lists_ours_is_named_and_nothing_is_written(api: FakeApi) -> None:
    api.put(PATH, {**manifests({"x": ["b"]})[1], "metadata": {"name": "x"}})
    with pytest.raises(TrainyardError) as caught:
        await prepare(api, {"s": ["a"], "t": ["c", "b"]})
    assert [finding.path for finding in caught.value.findings] == ["HyperNode/x"]
    assert api.writes == []


async def test_a_webhook_that_serves_the_certificate_of_a_former_installation_is_awaited(api: FakeApi) -> None:
    """It is asked with a dry run until its pods are replaced; then what moves is written."""
    left = [UNTRUSTED, UNTRUSTED]

    def fault(_: FakeApi, request: web.Request) -> web.Response | None:
        return error(500, "InternalError", left.pop()) if left and request.method == "PATCH" else None

    api.fault = fault
    await prepare(api, {"s": ["a"], "t": ["c", "b"]})
    dry = ["dryRun=All" in path for method, path in api.requests if method == "PATCH"]
    assert dry == [True, True, True, False]
    assert (members(api, "s"), members(api, "t")) == (["a"], ["c"])
