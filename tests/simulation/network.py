"""What lies between a controller process and the model: latency, lost answers, cuts, and the death of the process.

A link stands where aiohttp's session stands, so that the client, its fence, its repetitions and its reading of watches
run unchanged.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any
from unittest import mock
from urllib.parse import urlsplit

import aiohttp
import orjson
from multidict import CIMultiDict

from tests.simulation.api_server import ApiServer, Call, Event, RefusedError, decode
from tests.simulation.virtual_time import VirtualTimeLoop
from tests.simulation.webhooks import Webhook
from trainyard.kube.training_kinds import JOB_SETS

_BOOKMARK_SECONDS = 60.0
_MOMENT = 0.0005


class Network:
    """All links, by the host name of the process.

    Parameters
    ----------
    server
        The model.
    loop
        Virtual time.
    rng
        Randomness of latencies and losses.
    """

    def __init__(self, server: ApiServer, loop: VirtualTimeLoop, rng: random.Random) -> None:
        self.server, self.loop, self.rng = server, loop, rng
        self.links: dict[str, Link] = {}
        self.refusals: dict[str, Callable[[Call], RefusedError | None]] = {}
        self.down = False
        self.lag = 0.0
        self._creates: dict[str, Call] = {}
        """By name, the last create of a JobSet by a controller that was executed."""
        self.watches: dict[Any, dict[_Watch, None]] = {}
        """By kind, in the order in which they began: a set's would differ from run to run."""
        server.listeners.append(self._on_event)

    def link(self, host: str) -> Link:
        """Return a new link for a process."""
        self.links[host] = Link(self, host)
        return self.links[host]

    def refused(self, call: Call) -> RefusedError | None:
        """Return how a request is refused, None where it is not."""
        for refusal in self.refusals.values():
            if (error := refusal(call)) is not None:
                return error
        return None

    def repeat_create(self, name: str) -> None:
        """Execute the last create of a JobSet once more, as if its first attempt had been held back until now."""
        if name in self._creates and not self.down:
            with contextlib.suppress(RefusedError):
                self.server.carry_out(self._creates[name])

    def delay_next_events(self, seconds: float) -> None:
        """Let what is written at this moment reach each watch after up to this time."""
        self.lag = seconds
        self.loop.call_later(_MOMENT, setattr, self, "lag", 0.0)

    def cut_watches(self) -> None:
        """Break every open watch in the middle of an event."""
        for watches in self.watches.values():
            for watch in list(watches):
                watch.cut = True
                watch.wake()

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        """Answer all HTTP requests of this process from the model."""

        def session(**options: Any) -> _Session:
            return _Session(self)

        with (
            mock.patch.object(aiohttp, "ClientSession", session),
            mock.patch.object(aiohttp, "TCPConnector", return_value=None),
        ):
            yield

    def _on_event(self, event: Event) -> None:
        created = event.old is None and event.last.kind.resource == JOB_SETS
        if created and event.call.user.startswith("controller-"):
            self._creates[event.last.key[1]] = event.call
        for watch in list(self.watches.get(event.last.kind, ())):
            watch.wake()


class Link:
    """The connections of one process.

    Attributes
    ----------
    latency
        Bounds in seconds of one way.
    loss
        Probability that the answer to a write is lost.
    late
        Probability that a write reaches the server only after its client has given up.
    held_back
        Seconds that the next create of a JobSet spends in a half-open connection, 0: it does not. Its client gives up.
    cut
        Whether requests stay without an answer.
    watch_delay
        Bounds in seconds by which watches are behind.
    crash_after
        Number of writes after which the process is killed, None: never.
    """

    def __init__(self, network: Network, host: str) -> None:
        self.network, self.host = network, host
        self.latency = (0.001, 0.03)
        self.watch_delay = (0.001, 0.05)
        self.loss = 0.0
        self.late = 0.0
        self.held_back = 0.0
        self.cut = False
        self.dead = False
        self.crash_after: int | None = None
        self._spared = False
        self.on_crash: Callable[[], None] = lambda: None

    async def request(self, call: Call) -> _Response:
        """Send one request and wait for its answer."""
        network, rng = self.network, self.network.rng
        if self.dead:
            raise aiohttp.ClientConnectionError("the process is dead")
        if network.down:
            await asyncio.sleep(0.001)
            raise aiohttp.ClientConnectionError("connection refused")
        crash = self._crashes(call)
        if crash and rng.random() < 0.5:
            self._crash()
            await asyncio.Event().wait()
        call = replace(call, sent=network.server.version)
        answer: asyncio.Future[_Response] = network.loop.create_future()
        delay = rng.uniform(*self.latency)
        if self.cut:
            delay += rng.uniform(0.0, 40.0)
        elif call.writes and rng.random() < self.late:
            delay += rng.uniform(5.0, 40.0)
        if self.held_back and call.verb == "create" and call.kind.resource == JOB_SETS:
            delay, self.held_back = delay + self.held_back, 0.0
        network.loop.call_later(delay, self._arrive, call, answer, crash)
        return await answer

    def _hangs(self, call: Call) -> Webhook | None:
        """Return the webhook that the API server waits for in vain, None where none hangs."""
        webhooks = (each for each in self.network.server.admission if isinstance(each, Webhook))
        return next((each for each in webhooks if each.hangs and each.reviews(call)), None)

    def _crashes(self, call: Call) -> bool:
        if self.crash_after is None or not call.writes or call.kind.resource.plural in ("leases", "events"):
            return False
        self.crash_after -= 1
        return self.crash_after <= 0

    def spare(self) -> None:
        """Let the process live from now on, whatever is still on its way."""
        self.crash_after, self.held_back = None, 0.0
        self._spared = True

    def _crash(self) -> None:
        """Kill the process once: what a dead one sent may arrive while its successor runs."""
        if self.dead:
            return
        self.crash_after = None
        self.dead = True
        self.on_crash()

    def _arrive(self, call: Call, answer: asyncio.Future[_Response], crash: bool) -> None:
        network = self.network
        if network.down:
            self._fail(answer, "connection reset")
            return
        if (webhook := self._hangs(call)) is not None:
            error = webhook.timed_out
            response = _Response(error.status, error.payload, reason=error.reason)
            network.loop.call_later(webhook.timeout, _deliver, answer, response)
            return
        response = self._answered(call)
        if crash and not self._spared:
            self._crash()
            return
        if self.cut or self.dead:
            return
        if call.writes and network.rng.random() < self.loss:
            network.loop.call_later(network.rng.uniform(*self.latency), self._fail, answer, "connection reset")
            return
        network.loop.call_later(network.rng.uniform(*self.latency), _deliver, answer, response)

    def _answered(self, call: Call) -> _Response:
        try:
            if (refused := self.network.refused(call)) is not None:
                raise refused
            if call.verb == "watch":
                return _Response(200, b"", content=_Watch(self, call))
            status, body = self.network.server.carry_out(call)
        except RefusedError as error:
            return _Response(error.status, error.payload, reason=error.reason, wait=error.retry_after)
        return _Response(status, body)

    def _fail(self, answer: asyncio.Future[_Response], why: str) -> None:
        if not answer.done():
            answer.set_exception(aiohttp.ClientConnectionError(why))


def _deliver(answer: asyncio.Future[_Response], response: _Response) -> None:
    if not answer.done():
        answer.set_result(response)


class _Session:
    """What the transport takes for an `aiohttp.ClientSession`."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self.closed = False

    async def request(
        self,
        method: str,
        url: str,
        *,
        params: Mapping[str, str] | None = None,
        data: bytes | None = None,
        headers: Sequence[tuple[str, str]] = (),
        timeout: aiohttp.ClientTimeout | None = None,  # noqa: ASYNC109 - aiohttp's signature
        **options: Any,
    ) -> _Response:
        parts = urlsplit(url)
        link = self._network.links[parts.hostname or ""]
        sent = CIMultiDict(headers)
        try:
            call = decode(
                method,
                parts.path,
                params or {},
                data,
                content_type=sent.get("Content-Type", ""),
                accept=sent.get("Accept", ""),
                user=link.host,
            )
        except RefusedError as error:
            return _Response(error.status, error.payload, reason=error.reason)
        limits = [timeout.total, timeout.sock_read] if timeout is not None else []
        async with asyncio.timeout(min((each for each in limits if each is not None), default=None)):
            return await link.request(call)

    async def close(self) -> None:
        self.closed = True


class _Response:
    """What the transport takes for an `aiohttp.ClientResponse`."""

    def __init__(
        self, status: int, body: bytes, *, reason: str = "OK", wait: int | None = None, content: Any = None
    ) -> None:
        self.status, self.reason, self.content = status, reason, content
        self.headers = CIMultiDict({} if wait is None else {"Retry-After": str(wait)})
        self._body = body

    async def read(self) -> bytes:
        return self._body

    def release(self) -> None:
        """Nothing is held."""

    def close(self) -> None:
        if self.content is not None:
            self.content.close()


class _Watch:
    """The body of a watch response: what happens, some time after it happened."""

    def __init__(self, link: Link, call: Call) -> None:
        self._link, self._call = link, call
        network = link.network
        self._version = int(call.query["resourceVersion"])
        self._ends = network.loop.time() + float(call.query.get("timeoutSeconds") or 300)
        self._bookmark = network.loop.time() + _BOOKMARK_SECONDS
        self._news: asyncio.Future[None] | None = None
        self.cut = False
        network.watches.setdefault(call.kind, {})[self] = None

    def wake(self) -> None:
        if self._news is not None and not self._news.done():
            self._news.set_result(None)

    def close(self) -> None:
        self._link.network.watches[self._call.kind].pop(self, None)

    async def readany(self) -> bytes:
        """Return the next bytes, none at the end."""
        link, network = self._link, self._link.network
        while True:
            if self.cut or network.down:
                raise aiohttp.ClientPayloadError("the watch was cut")
            if link.cut or link.dead:
                await self._wait(5.0)
                continue
            now = network.loop.time()
            if now >= self._ends:
                return b""
            try:
                lines, version = network.server.watch_lines(self._call, self._version)
            except RefusedError as error:
                self._ends = now
                return orjson.dumps({"type": "ERROR", "object": error.body()}) + b"\n"
            if lines:
                shortest, longest = link.watch_delay
                await asyncio.sleep(network.rng.uniform(shortest, max(longest, network.lag)))
                if self.cut or network.down or link.cut:
                    continue
                self._version = version
                return lines
            self._version = version
            if now >= self._bookmark:
                self._bookmark = now + _BOOKMARK_SECONDS
                return network.server.bookmark(self._call)
            await self._wait(min(self._ends, self._bookmark) - now)

    async def _wait(self, seconds: float) -> None:
        self._news = self._link.network.loop.create_future()
        try:
            async with asyncio.timeout(seconds):
                await self._news
        except TimeoutError:
            return
