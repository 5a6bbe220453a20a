"""HyperNodes that choose their nodes by label are written, so that Volcano reads their nodes again."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kube.fake_api import FakeApi, error, serving
from trainyard.kube.api_errors import ApiError
from trainyard.kube.client import Client
from trainyard.kube.credentials import Connection
from trainyard.kube.training_kinds import HYPER_NODES
from trainyard.platform.hyper_nodes import REFRESHED, refresh_hyper_nodes


def hyper_node(name: str) -> dict[str, Any]:
    return {"apiVersion": HYPER_NODES.api_version, "kind": "HyperNode", "metadata": {"name": name}, "spec": {"tier": 1}}


async def test_each_is_written_and_a_missing_one_is_ignored() -> None:
    async with serving(FakeApi()) as api, Client(Connection(f"http://127.0.0.1:{api.port}")) as client:
        for name in ("ra", "rb"):
            await client.create(HYPER_NODES, hyper_node(name))
        assert await refresh_hyper_nodes(client, ["ra", "gone"]) == ["ra"]
        assert REFRESHED in (await client.get(HYPER_NODES, "ra"))["metadata"]["annotations"]
        assert not (await client.get(HYPER_NODES, "rb"))["metadata"].get("annotations")


async def test_a_rejected_write_is_an_error() -> None:
    async with serving(FakeApi()) as api, Client(Connection(f"http://127.0.0.1:{api.port}")) as client:
        api.fault = lambda fake, request: error(403, "Forbidden", "") if request.method == "PATCH" else None
        with pytest.raises(ApiError):
            await refresh_hyper_nodes(client, ["ra"])
