from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.kube.fake_api import FakeApi, serving
from trainyard.local.cluster.supervisor.bootstrap import bootstrap, release_nodes

LEASES = "/apis/coordination.k8s.io/v1/leases"


@pytest.fixture
async def api() -> AsyncIterator[FakeApi]:
    async with serving(FakeApi()) as running:
        yield running


def lease(name: str, namespace: str) -> dict[str, object]:
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"holderIdentity": "kwok-before"},
    }


async def test_nodes_of_a_kwok_that_has_ended_are_released_and_other_leases_stay(api: FakeApi) -> None:
    for number in range(3):
        api.put(LEASES, lease(f"node-{number}", "kube-node-lease"))
    api.put(LEASES, lease("leader", "kubeflow-system"))
    async with api.client() as client:
        await release_nodes(client)
    assert [body["metadata"]["name"] for body in api.of("leases")] == ["leader"]


async def test_bootstrapping_twice_changes_nothing(api: FakeApi) -> None:
    async with api.client() as client:
        await bootstrap(client)
        version = api.server.version
        await bootstrap(client)
    assert api.server.version == version
