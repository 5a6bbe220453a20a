"""The model answers as the real API server with JobSet's real webhook does."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator

import pytest

from tests.api.schemas import definitions
from tests.compatibility import servers
from tests.simulation.api_server import ApiServer
from tests.simulation.conformance import Operation, drawn_operations, replayed
from tests.simulation.network import Network
from tests.simulation.virtual_time import VirtualTimeLoop, run_in_virtual_time
from tests.simulation.webhooks import JobSetWebhook
from trainyard.kube.client import Client
from trainyard.kube.credentials import Connection
from trainyard.kube.kinds import NAMESPACES
from trainyard.settings.versions import supported_versions

pytestmark = pytest.mark.cluster

SEEDS = range(24)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[servers.Server]:
    with servers.api_server(tmp_path_factory.mktemp("conformance")) as running:
        asyncio.run(install(running))
        with servers.jobset(running, supported_versions("jobset")[0]):
            yield running


async def install(server: servers.Server) -> None:
    async with server.client() as client:
        await servers.install(client, [*servers.job_definitions(), *definitions()])


async def really(server: servers.Server, seed: int, operations: list[Operation]) -> list[str]:
    namespace = f"seed-{seed}"
    async with server.client() as client:
        home = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
        await client.apply(NAMESPACES, home, field_manager="test")
        return await replayed(client, namespace, operations)


def modeled(seed: int, operations: list[Operation]) -> list[str]:
    async def main(loop: VirtualTimeLoop) -> list[str]:
        model = ApiServer(JobSetWebhook())
        network = Network(model, loop, random.Random(seed))
        network.link("client.simulated")
        model.handle("POST", "/api/v1/namespaces", {}, b'{"metadata":{"name":"team"}}')
        with network.installed():
            client = Client(Connection("http://client.simulated"))
            return await replayed(client, "team", operations)

    return run_in_virtual_time(main, seed=seed)


@pytest.mark.parametrize("seed", SEEDS)
def test_random_requests_get_equal_answers(server: servers.Server, seed: int) -> None:
    operations = drawn_operations(seed)
    expected, found = asyncio.run(really(server, seed, operations)), modeled(seed, operations)
    for number, (operation, ours, theirs) in enumerate(zip(operations, found, expected, strict=True), 1):
        assert ours == theirs, f"{number}. {operation}"
