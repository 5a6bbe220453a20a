"""The forwarder with real sockets: only ready replicas, established connections go on, nothing waits."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from trainyard.local.cluster.host_address import HOST
from trainyard.local.cluster.supervisor.forwarder import Forwarder


def buffered_by_the_kernel() -> int:
    """Return the most bytes that two connections keep in the buffers of their sockets."""
    return 2 * sum(int(Path(f"/proc/sys/net/ipv4/tcp_{name}").read_text().split()[2]) for name in ("rmem", "wmem"))


class Replica:
    """Answers each line with its name and the line; counts what it accepts."""

    def __init__(self, name: str) -> None:
        self.name, self.accepted, self.port = name, 0, 0
        self.ended = asyncio.Event()
        self._server: asyncio.Server | None = None
        self._writers: list[asyncio.StreamWriter] = []

    async def start(self) -> Replica:
        self._server = await asyncio.start_server(self._serve, HOST, self.port)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        self._writers.append(writer)
        try:
            while line := await reader.readline():
                writer.write(f"{self.name} ".encode() + line)
                await writer.drain()
        except ConnectionError:
            pass
        finally:
            writer.close()
            self.ended.set()

    async def stop(self, *, abort: bool = False) -> None:
        assert self._server is not None
        self._server.close()
        for writer in self._writers:
            if abort:
                writer.transport.abort()
            else:
                writer.close()


class Connection:
    """A client of the forwarder."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    @classmethod
    async def open(cls, forwarder: Forwarder) -> Connection:
        return cls(*await asyncio.open_connection(HOST, forwarder.port))

    async def ask(self, text: str = "hello") -> str:
        self.writer.write(f"{text}\n".encode())
        return (await self.reader.readline()).decode().strip()

    async def ended(self) -> bool:
        try:
            return await self.reader.read(1) == b""
        except ConnectionError:
            return True


async def once(forwarder: Forwarder) -> str:
    """Return who answers a new connection."""
    connection = await Connection.open(forwarder)
    answer = await connection.ask()
    connection.writer.close()
    return answer.partition(" ")[0]


@pytest.fixture
async def replicas() -> AsyncIterator[tuple[Replica, Replica]]:
    both = await Replica("a").start(), await Replica("b").start()
    yield both
    for replica in both:
        await replica.stop()


@pytest.fixture
async def forwarder(replicas: tuple[Replica, Replica]) -> AsyncIterator[Forwarder]:
    found = Forwarder(0, limit=8)
    found.targets = [replica.port for replica in replicas]
    async with asyncio.timeout(30):
        await found.start()
        yield found
        await found.close()


async def no_connections(forwarder: Forwarder) -> None:
    while forwarder.connections:  # noqa: ASYNC110
        await asyncio.sleep(0.005)


async def test_ready_replicas_take_turns(forwarder: Forwarder, replicas: tuple[Replica, Replica]) -> None:
    assert sorted([await once(forwarder) for _ in range(6)]) == ["a"] * 3 + ["b"] * 3
    await no_connections(forwarder)


async def test_a_refused_connect_goes_to_the_next_replica(
    forwarder: Forwarder, replicas: tuple[Replica, Replica]
) -> None:
    await replicas[0].stop()
    assert [await once(forwarder) for _ in range(4)] == ["b"] * 4


async def test_an_unready_replica_gets_no_new_connection_and_its_established_ones_go_on(
    forwarder: Forwarder, replicas: tuple[Replica, Replica]
) -> None:
    established = [await Connection.open(forwarder) for _ in range(2)]
    assert sorted([(await each.ask()).partition(" ")[0] for each in established]) == ["a", "b"]
    forwarder.targets = [replicas[1].port]
    assert [await once(forwarder) for _ in range(4)] == ["b"] * 4
    assert sorted([await each.ask("still") for each in established]) == ["a still", "b still"]
    assert replicas[0].accepted == 1


async def test_without_a_ready_replica_a_connection_is_closed_at_once(
    forwarder: Forwarder, replicas: tuple[Replica, Replica]
) -> None:
    forwarder.targets = []
    assert await (await Connection.open(forwarder)).ended()
    forwarder.targets = [replica.port for replica in replicas]
    for replica in replicas:
        await replica.stop()
    assert await (await Connection.open(forwarder)).ended()
    await no_connections(forwarder)


async def test_a_replica_that_dies_ends_its_connections_only(
    forwarder: Forwarder, replicas: tuple[Replica, Replica]
) -> None:
    connections = {(await each.ask())[0]: each for each in [await Connection.open(forwarder) for _ in range(2)]}
    await replicas[0].stop(abort=True)
    assert await connections["a"].ended()
    assert await connections["b"].ask("still") == "b still"


async def test_a_replica_that_starts_again_gets_connections_again(
    forwarder: Forwarder, replicas: tuple[Replica, Replica]
) -> None:
    await replicas[0].stop()
    assert {await once(forwarder) for _ in range(2)} == {"b"}
    await replicas[0].start()
    assert {await once(forwarder) for _ in range(2)} == {"a", "b"}


async def test_a_client_that_has_sent_everything_still_gets_its_answer(
    forwarder: Forwarder, replicas: tuple[Replica, Replica]
) -> None:
    connection = await Connection.open(forwarder)
    connection.writer.write(b"last\n")
    connection.writer.write_eof()
    assert (await connection.reader.read()).endswith(b" last\n")
    await no_connections(forwarder)


async def test_a_client_that_goes_away_is_let_go_at_the_replica(
    forwarder: Forwarder, replicas: tuple[Replica, Replica]
) -> None:
    connection = await Connection.open(forwarder)
    name = (await connection.ask())[0]
    connection.writer.transport.abort()
    await next(replica for replica in replicas if replica.name == name).ended.wait()
    await no_connections(forwarder)


async def test_connections_above_the_limit_are_closed_and_later_ones_served(
    forwarder: Forwarder, replicas: tuple[Replica, Replica]
) -> None:
    open_ones = [await Connection.open(forwarder) for _ in range(8)]
    assert all([await each.ask() for each in open_ones])
    assert await (await Connection.open(forwarder)).ended()
    open_ones[0].writer.close()
    while forwarder.connections == 8:  # noqa: ASYNC110
        await asyncio.sleep(0.005)
    assert await once(forwarder) in ("a", "b")


@pytest.mark.slow
async def test_what_a_slow_reader_leaves_is_not_buffered(forwarder: Forwarder) -> None:
    large = buffered_by_the_kernel() + (16 << 20)
    large -= large % (1 << 16)
    sent = 0

    async def pour(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        for _ in range(large >> 16):
            writer.write(bytes(1 << 16))
            await writer.drain()
            sent += 1 << 16
        writer.close()

    server = await asyncio.start_server(pour, HOST, 0)
    forwarder.targets = [server.sockets[0].getsockname()[1]]
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.setblocking(False)
    loop = asyncio.get_running_loop()
    await loop.sock_connect(client, (HOST, forwarder.port))
    before = -1
    while sent != before or not sent:
        before = sent
        await asyncio.sleep(0.1)
    assert sent < large
    received = 0
    while block := await loop.sock_recv(client, 1 << 16):
        received += len(block)
    client.close()
    server.close()
    assert received == large


async def test_closing_it_ends_everything_and_frees_the_port(
    forwarder: Forwarder, replicas: tuple[Replica, Replica]
) -> None:
    connection = await Connection.open(forwarder)
    assert await connection.ask()
    await forwarder.close()
    assert await connection.ended()
    assert not forwarder.listening
    again = Forwarder(forwarder.port)
    await again.start()
    await again.close()


async def test_a_taken_port_is_an_error(forwarder: Forwarder) -> None:
    with pytest.raises(OSError, match="address already in use"):
        await Forwarder(forwarder.port).start()
