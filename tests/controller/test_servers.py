from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest
from aiohttp import web

from trainyard.controller.configuration import Listener
from trainyard.controller.servers import Servers
from trainyard.errors import TrainyardError

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
async def serving(slow: Slow) -> AsyncIterator[tuple[Servers, aiohttp.ClientSession, str]]:
    servers = Servers()
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
