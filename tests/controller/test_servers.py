from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest
from aiohttp import web

from trainyard.controller.configuration import Listener
from trainyard.controller.servers import Servers
from trainyard.errors import TrainyardError
from trainyard.http_server import ConnectionLimits
from trainyard.listening import bound_socket, has_address, url_host

LOCAL = Listener(host="127.0.0.1", port=0)


class Slow:
    """A server whose answer waits until it is let go."""

    def __init__(self) -> None:
        self.begun, self.go = asyncio.Event(), asyncio.Event()
        self.app = web.Application()
        self.app.router.add_get("/", self.answer)
        self.app.router.add_get("/refused", self.refuse)

    async def answer(self, _: web.Request) -> web.Response:
        self.begun.set()
        await self.go.wait()
        return web.Response(text="done")

    async def refuse(self, _: web.Request) -> web.Response:
        raise web.HTTPForbidden


@asynccontextmanager
async def serving(
    slow: Slow, limits: ConnectionLimits | None = None
) -> AsyncIterator[tuple[Servers, aiohttp.ClientSession, str]]:
    servers = Servers(limits)
    await servers.start("webhook", slow.app, LOCAL)
    async with aiohttp.ClientSession() as session:
        try:
            yield servers, session, f"http://127.0.0.1:{servers.ports['webhook']}"
        finally:
            await servers.close()


async def test_a_request_that_has_begun_is_answered_and_no_other_is_accepted() -> None:
    slow = Slow()
    async with serving(slow) as (servers, session, url):
        asked = asyncio.create_task(session.get(url))
        await asyncio.wait_for(slow.begun.wait(), 5)
        closing = asyncio.create_task(servers.close())
        async with asyncio.timeout(5):
            while True:
                try:
                    async with session.get(f"{url}/refused"):
                        pass
                except aiohttp.ClientConnectionError:
                    break
        assert not closing.done()
        slow.go.set()
        async with await asked as response:
            assert (response.status, response.headers["Connection"]) == (200, "close")
            assert await response.text() == "done"
        await asyncio.wait_for(closing, 5)


async def test_a_connection_is_kept_until_drain_and_ends_with_an_answer_also_when_that_is_an_error() -> None:
    slow = Slow()
    slow.go.set()
    async with serving(slow) as (servers, session, url):
        for connection in (None, "close"):
            for path, status in (("/", 200), ("/refused", 403)):
                async with session.get(url + path) as response:
                    assert (response.status, response.headers.get("Connection")) == (status, connection)
            servers.drain()


async def test_a_port_that_is_taken_names_server_and_flag() -> None:
    async with serving(Slow()) as (servers, _, _):
        taken = Listener(host="127.0.0.1", port=servers.ports["webhook"])
        with pytest.raises(TrainyardError, match=f"metrics: cannot listen on 127.0.0.1:{taken.port}") as refused:
            await servers.start("metrics", web.Application(), taken)
        assert refused.value.fix == "Free the port or choose another with --metrics-port"
        assert list(servers.ports) == ["webhook"]


async def ends(reader: asyncio.StreamReader) -> bool:
    """Whether the server closes a connection."""
    try:
        await asyncio.wait_for(reader.read(), 15)
    except ConnectionError:
        return True
    except TimeoutError:
        return False
    return True


async def test_connections_end_that_send_nothing_or_a_header_byte_by_byte() -> None:
    limits = ConnectionLimits(idle_seconds=0.2)
    slow = Slow()
    slow.go.set()
    async with serving(slow, limits) as (servers, _, _):
        port = servers.ports["webhook"]
        silent, _ = await asyncio.open_connection("127.0.0.1", port)
        _, dripping = await asyncio.open_connection("127.0.0.1", port)
        answered, asked = await asyncio.open_connection("127.0.0.1", port)
        asked.write(b"GET /refused HTTP/1.1\r\nHost: a\r\n\r\n")
        dripped = asyncio.create_task(drip(dripping))
        assert await ends(silent)
        assert await ends(answered)
        assert await asyncio.wait_for(dripped, 15) < 500


async def drip(writer: asyncio.StreamWriter) -> int:
    """Return after how many parts of a header the connection has ended."""
    for sent in range(500):
        try:
            writer.write(b"G" if sent == 0 else b"E")
            await writer.drain()
        except ConnectionError:
            return sent
        await asyncio.sleep(0.02)
    return 500


async def test_a_slow_request_is_answered_however_long_it_takes() -> None:
    slow = Slow()
    async with serving(slow, ConnectionLimits(idle_seconds=0.1)) as (_, session, url):
        asked = asyncio.create_task(session.get(url))
        await asyncio.sleep(0.3)
        slow.go.set()
        async with await asyncio.wait_for(asked, 2) as response:
            assert await response.text() == "done"


@pytest.mark.parametrize("limits", [ConnectionLimits(connections=3), ConnectionLimits(of_address=3)])
async def test_beyond_the_limit_a_new_connection_takes_the_place_of_the_one_that_has_waited_longest(
    limits: ConnectionLimits,
) -> None:
    slow = Slow()
    async with serving(slow, limits) as (servers, session, url):
        asked = asyncio.create_task(session.get(url))
        await asyncio.wait_for(slow.begun.wait(), 5)
        answered, writer = await asyncio.open_connection("127.0.0.1", servers.ports["webhook"])
        writer.write(b"GET /refused HTTP/1.1\r\nHost: a\r\n\r\n")
        await answered.readuntil(b"403: Forbidden")
        idle = [await asyncio.open_connection("127.0.0.1", servers.ports["webhook"]) for _ in range(4)]
        assert [await ends(reader) for reader in (answered, idle[0][0], idle[1][0])] == [True] * 3
        slow.go.set()
        async with await asyncio.wait_for(asked, 5) as response:
            assert response.status == 200
        for _, each in idle:
            each.close()


HEAD = b"GET /none HTTP/1.1\r\nHost: a\r\n"


@pytest.mark.parametrize(
    ("first", "rest", "answer"),
    [
        (b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n", b"x", b""),
        (HEAD + b"X: ", b"x" * 5000, b"HTTP/1.1 431"),
        (HEAD + b"\r\n" + HEAD + b"X: ", b"x" * 5000, b"HTTP/1.1 404"),
        (HEAD + b"Expect: nothing\r\n\r\n" + HEAD + b"X: ", b"x" * 5000, b"HTTP/1.1 417"),
    ],
)
async def test_a_body_that_does_not_arrive_ends_and_a_head_is_bounded(first: bytes, rest: bytes, answer: bytes) -> None:
    async with serving(Slow(), ConnectionLimits(body_seconds=0.2, head_bytes=4096)) as (servers, _, _):
        reader, writer = await asyncio.open_connection("127.0.0.1", servers.ports["webhook"])
        writer.write(first)
        await asyncio.sleep(0.1)
        writer.write(rest)
        found = b""
        with contextlib.suppress(ConnectionError):
            while part := await asyncio.wait_for(reader.read(1000), 5):
                found += part
        assert found[:12] == answer
        writer.close()


async def test_beyond_the_limit_it_takes_the_place_of_one_that_has_been_answered() -> None:
    """Clients that ask once on each of their connections would keep the API server out."""
    slow = Slow()
    slow.go.set()
    async with serving(slow, ConnectionLimits(connections=3)) as (servers, session, url):
        held = [await asyncio.open_connection("127.0.0.1", servers.ports["webhook"]) for _ in range(3)]
        for reader, writer in held:
            writer.write(b"GET /refused HTTP/1.1\r\nHost: a\r\n\r\n")
            assert await asyncio.wait_for(reader.readuntil(b"\r\n"), 5)
        async with session.get(url) as response:
            assert await response.text() == "done"
        assert await ends(held[0][0])
        for _, writer in held:
            writer.close()


async def test_beyond_the_limit_it_takes_the_place_of_one_whose_body_does_not_arrive() -> None:
    slow = Slow()
    async with serving(slow, ConnectionLimits(connections=3)) as (servers, session, url):
        held = [await asyncio.open_connection("127.0.0.1", servers.ports["webhook"]) for _ in range(3)]
        for _, writer in held:
            writer.write(b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n")
        await asyncio.wait_for(slow.begun.wait(), 5)
        asked = asyncio.create_task(session.get(url))
        assert await ends(held[0][0])
        slow.go.set()
        async with await asyncio.wait_for(asked, 5) as response:
            assert response.status == 200
        for _, writer in held:
            writer.close()


async def test_beyond_the_limit_it_takes_the_place_of_one_of_the_address_with_the_most() -> None:
    slow = Slow()
    slow.go.set()
    async with serving(slow, ConnectionLimits(connections=4)) as (servers, _, _):

        async def connected(address: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
            return await asyncio.open_connection("127.0.0.1", servers.ports["webhook"], local_addr=(address, 0))

        held = [await connected("127.0.0.2")]
        held += [await connected("127.0.0.3") for _ in range(6)]
        assert [await ends(reader) for reader, _ in held[1:4]] == [True] * 3
        reader, writer = held[0]
        writer.write(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        assert b"200" in await asyncio.wait_for(reader.readuntil(b"\r\n"), 5)
        for _, writer in held:
            writer.close()


async def test_an_answer_that_is_not_read_ends() -> None:
    slow, ended = Slow(), asyncio.Event()

    async def endless(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        try:
            while True:
                await response.write(bytes(1 << 16))
        finally:
            ended.set()

    slow.app.router.add_get("/endless", endless)
    async with serving(slow, ConnectionLimits(body_seconds=0.2)) as (servers, _, _):
        reader, writer = await asyncio.open_connection("127.0.0.1", servers.ports["webhook"])
        writer.write(b"GET /endless HTTP/1.1\r\nHost: a\r\n\r\n")
        assert await reader.read(1)
        await asyncio.wait_for(ended.wait(), 10)
        writer.transport.abort()


async def test_a_server_listens_on_an_ipv6_address() -> None:
    if not has_address("::1"):
        pytest.skip("this machine has no ::1")
    slow = Slow()
    slow.go.set()
    servers = Servers()
    await servers.start("webhook", slow.app, Listener(host="::1", port=0))
    try:
        url = f"http://{url_host('::1')}:{servers.ports['webhook']}/"
        async with aiohttp.ClientSession() as session, session.get(url) as response:
            assert await response.text() == "done"
    finally:
        await servers.close()


@pytest.mark.parametrize("host", [Listener(port=0).host, "::"])
def test_the_default_address_is_that_of_both_families_or_of_the_only_one(
    host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with bound_socket(host, 0) as both:  # Bound only: a test does not listen beyond this machine.
        if both.family == socket.AF_INET6:
            assert both.getsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY) == 0

    def without_ipv6(family: int, *_: object) -> socket.socket:
        if family == socket.AF_INET6:
            raise OSError(errno.EAFNOSUPPORT, "Address family not supported by protocol")
        return original(family, socket.SOCK_STREAM)

    original = socket.socket
    monkeypatch.setattr("trainyard.listening.socket.socket", without_ipv6)
    with bound_socket(host, 0) as only:
        assert only.family == socket.AF_INET
    assert not has_address("::1")
