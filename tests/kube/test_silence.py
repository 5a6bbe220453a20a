"""Connections that stay open and say nothing more: no end, no reset; a firewall lost its state, a server froze."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from tests.kube.fake_api import FakeApi, eventually
from trainyard.kube import transport
from trainyard.kube.api_errors import TransportError
from trainyard.kube.backoff import Backoff
from trainyard.kube.client import Client
from trainyard.kube.credentials import Connection
from trainyard.kube.informer import Informer
from trainyard.kube.leader import LeaderElector
from trainyard.kube.resource import Resource

CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap")
PATH = "/api/v1/configmaps"


class Proxy:
    """A TCP proxy whose connections can go dead without being closed."""

    def __init__(self, target: int) -> None:
        self.port = 0
        self.opened = 0
        self.frozen = False
        self.pause = 0.0
        self._target = target
        self._silent = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    def silence(self) -> None:
        """Let every connection that is open now forward nothing more; new ones work."""
        self._silent.set()
        self._silent = asyncio.Event()

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.opened += 1
        silent = self._silent
        upstream_reader, upstream_writer = await asyncio.open_connection("127.0.0.1", self._target)
        await asyncio.gather(self._pump(reader, upstream_writer, silent), self._pump(upstream_reader, writer, silent))

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, silent: asyncio.Event) -> None:
        with suppress(ConnectionError):
            while data := await reader.read(1 << 16):
                if silent.is_set() or self.frozen:
                    await asyncio.Event().wait()
                if not self.pause:
                    writer.write(data)
                for start in range(0, len(data) if self.pause else 0, 1024):
                    await asyncio.sleep(self.pause)
                    writer.write(data[start : start + 1024])
                await writer.drain()
        if not (silent.is_set() or self.frozen):
            writer.close()

    def start(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(self.handle(reader, writer))
        self._tasks.add(task)

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


@asynccontextmanager
async def proxied(api: FakeApi, **options: float) -> AsyncIterator[tuple[Proxy, Client]]:
    proxy = Proxy(api.port)
    server = await asyncio.start_server(proxy.start, "127.0.0.1", 0)
    proxy.port = server.sockets[0].getsockname()[1]
    try:
        async with Client(Connection(f"http://127.0.0.1:{proxy.port}"), **options) as client:  # type: ignore[arg-type]
            yield proxy, client
    finally:
        server.close()
        await proxy.close()


def config_map(name: str) -> dict[str, object]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "ns"}}


@asynccontextmanager
async def following(client: Client) -> AsyncIterator[Informer]:
    informer = Informer(client, CONFIG_MAPS, backoff=Backoff(0.01, 0.05), timeout_seconds=lambda: 1, grace=0.3)
    task = asyncio.create_task(informer.run())
    try:
        await informer.wait_synced()
        yield informer
        assert not task.done()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def test_a_watch_is_renewed_about_every_33_seconds(api: FakeApi) -> None:
    informer = Informer(api.client(), CONFIG_MAPS)
    lengths = [informer._timeout_seconds() for _ in range(1000)]
    assert 30 <= min(lengths) <= max(lengths) <= 36
    assert 32 < sum(lengths) / len(lengths) < 34


def test_a_silent_watch_is_found_within_45_seconds(api: FakeApi) -> None:
    """Three times that was measured when watches waited for two bookmarks."""
    informer = Informer(api.client(), CONFIG_MAPS)
    longest = max(informer._timeout_seconds() for _ in range(1000)) + informer._grace
    assert longest + informer._backoff.next() < 45


@pytest.mark.slow
async def test_a_watch_that_fell_silent_is_cut_and_resumed_on_another_connection(api: FakeApi) -> None:
    async with proxied(api) as (proxy, client), following(client) as informer:
        api.put(PATH, config_map("a"))
        await eventually(lambda: len(informer.store) == 1)
        proxy.silence()
        api.put(PATH, config_map("b"))
        await eventually(lambda: len(informer.store) == 2, within=20)
        assert informer.relists == {"start": 1}
        assert proxy.opened == 2


@pytest.mark.slow
async def test_a_frozen_server_is_waited_for_and_found_again(api: FakeApi) -> None:
    async with proxied(api, timeout=0.3) as (proxy, client), following(client) as informer:
        proxy.frozen = True
        api.put(PATH, config_map("a"))
        await eventually(lambda: proxy.opened >= 3)
        proxy.frozen = False
        await eventually(lambda: len(informer.store) == 1)
        assert informer.relists == {"start": 1}


@pytest.mark.slow
async def test_a_quiet_watch_goes_on_over_one_connection_from_its_last_bookmark(api: FakeApi) -> None:
    async with proxied(api) as (proxy, client), following(client) as informer:
        watches = [path for _, path in api.requests if "watch=true" in path]
        api.server.version += 100
        await eventually(lambda: sum("watch=true" in path for _, path in api.requests) >= len(watches) + 2)
        assert proxy.opened == 1
        assert informer.store.observed == api.server.version
        assert f"resourceVersion={api.server.version}" in api.requests[-1][1]


@pytest.mark.slow
async def test_no_second_request_meets_a_pool_that_fell_silent(api: FakeApi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "_IDLE_SECONDS", 0.2)
    api.put(PATH, config_map("a"))
    async with proxied(api, timeout=0.4, concurrency=20) as (proxy, client):

        async def many() -> list[object]:
            gets = [client.get(CONFIG_MAPS, "a", namespace="ns") for _ in range(20)]
            return list(await asyncio.gather(*gets, return_exceptions=True))

        await many()
        opened = proxy.opened
        assert opened > 1
        proxy.silence()
        assert any(isinstance(answer, TransportError) for answer in await many())
        assert all(isinstance(answer, dict) for answer in await many())
        proxy.silence()
        with pytest.raises(TransportError):
            await client.get(CONFIG_MAPS, "a", namespace="ns")
        await client.get(CONFIG_MAPS, "a", namespace="ns")


async def test_a_leader_whose_connection_fell_silent_renews_over_another(api: FakeApi) -> None:
    async with proxied(api) as (proxy, client):
        elector = LeaderElector(
            client,
            name="lease",
            namespace="ns",
            identity="a",
            lease_seconds=3,
            renew_seconds=1.0,
            retry_seconds=0.1,
        )
        await elector.acquire()
        holding = asyncio.create_task(elector.hold())
        proxy.silence()
        await eventually(lambda: proxy.opened == 2)
        await eventually(lambda: elector.remaining() > 0.8)
        assert not holding.done()
        holding.cancel()


@pytest.mark.slow
async def test_a_slow_link_is_not_a_silent_one(api: FakeApi) -> None:
    """An event or a page that takes longer than any timeout arrives, as long as something does."""
    large = {**config_map("large"), "data": {"x": "x" * 12_000}}
    async with proxied(api, timeout=0.5) as (proxy, client), following(client) as informer:
        api.put(PATH, config_map("small"))
        await eventually(lambda: len(informer.store) == 1)
        proxy.pause = 0.1
        api.put(PATH, large)
        await eventually(lambda: len(informer.store) == 2, within=8)
        assert informer.relists == {"start": 1}
        assert proxy.opened == 1
        started = time.monotonic()
        assert len(await client.list(CONFIG_MAPS)) == 2
        assert time.monotonic() - started > 1
