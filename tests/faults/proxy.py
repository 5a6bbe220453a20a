"""A reverse proxy between one controller process and the API server, which can do what networks and servers do.

It serves plain HTTP on 127.0.0.1, which the controller accepts for loopback addresses, records every request, and
applies the first fault that matches: answer instead of the server, delay, hold back, lose the answer of an executed
write, or call back once a write was executed. Whole connections can go silent without being closed.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp
from aiohttp import web

from tests.faults.background import Background
from tests.support import awaited

_READS = ("GET", "HEAD", "OPTIONS")
_DROPPED = ("host", "content-length", "transfer-encoding", "connection", "accept-encoding")


@dataclass
class Call:
    """One request of the controller and what became of it."""

    method: str
    path: str
    query: dict[str, str]
    body: Any
    plural: str
    namespace: str
    name: str
    subresource: str
    at: float = field(default_factory=time.monotonic)
    status: int = 0
    answer: Any = None

    @property
    def watch(self) -> bool:
        """Whether it is a watch."""
        return "watch" in self.query

    @property
    def write(self) -> bool:
        """Whether it would change something."""
        return self.method not in _READS

    @property
    def target(self) -> str:
        """Name of the object, also of one that is created."""
        if self.name or not isinstance(self.body, dict):
            return self.name
        return str((self.body.get("metadata") or {}).get("name") or "")

    def __str__(self) -> str:
        return f"{self.method} {self.path} {json.dumps(self.body)[:300]} -> {self.status}"


Match = Callable[[Call], bool]


@dataclass
class Fault:
    """What happens to the requests that match.

    Parameters
    ----------
    match
        Which requests.
    times
        How many of them; None: all.
    before
        Awaited before the request is forwarded; returns what is answered instead, None to go on.
    after
        Awaited after the request was executed; returns whether the answer is delivered.
    """

    match: Match
    times: int | None = None
    before: Callable[[Call], Any] | None = None
    after: Callable[[Call], Any] | None = None
    hits: int = 0
    answered: int = 0

    def takes(self, call: Call) -> bool:
        """Whether this request is one of them, and count it."""
        if (self.times is not None and self.hits >= self.times) or not self.match(call):
            return False
        self.hits += 1
        return True


class Proxy:
    """The link between one controller and the API server.

    Parameters
    ----------
    upstream
        Address of the API server.
    administrator, anonymous
        TLS for requests without and with a bearer token.
    """

    def __init__(self, upstream: str, administrator: ssl.SSLContext, anonymous: ssl.SSLContext) -> None:
        self.calls: list[Call] = []
        self.port = 0
        self._upstream = upstream
        self._contexts = (administrator, anonymous)
        self._sessions: list[aiohttp.ClientSession] = []
        self._faults: list[Fault] = []
        self._transports: weakref.WeakSet[Any] = weakref.WeakSet()
        self._silent: weakref.WeakSet[Any] = weakref.WeakSet()
        self._paused: dict[str, asyncio.Event] = {}
        self._background = Background()
        self._runner: web.AppRunner | None = None

    @property
    def url(self) -> str:
        """Address for the controller."""
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Proxy:
        self._background.run(self._open())
        return self

    def __exit__(self, *_: object) -> None:
        self._background.run(self._close())
        self._background.close()

    def writes(self, *, since: int = 0, events: bool = False) -> list[Call]:
        """Return the writes from a position in `calls` on, without those of leases and, unless asked for, of Events."""
        ignored = {"leases", *(() if events else ("events",))}
        return [call for call in self.calls[since:] if call.write and call.plural not in ignored]

    @contextmanager
    def fault(self, fault: Fault) -> Iterator[Fault]:
        """Have a fault until the end of the block."""
        self._faults = [*self._faults, fault]
        try:
            yield fault
        finally:
            self._faults = [each for each in self._faults if each is not fault]

    def answering(self, match: Match, status: int, reason: str, message: str = "", **options: Any) -> Any:
        """Have requests answered by a process that is not the API server; ``retry_after`` and ``times`` as options."""
        retry_after = options.pop("retry_after", None)
        headers = {} if retry_after is None else {"Retry-After": str(retry_after)}

        async def before(call: Call) -> web.Response:
            call.status = status
            return web.json_response(status_body(status, reason, message), status=status, headers=headers)

        return self.fault(Fault(match, before=before, **options))

    def delaying(self, match: Match, seconds: float, **options: Any) -> Any:
        """Have requests wait before they are forwarded."""

        async def before(_: Call) -> None:
            await asyncio.sleep(seconds)

        return self.fault(Fault(match, before=before, **options))

    def losing_answers(self, match: Match, **options: Any) -> Any:
        """Have requests executed and their connection cut before the answer."""

        async def after(_: Call) -> bool:
            return False

        return self.fault(Fault(match, after=after, **options))

    @contextmanager
    def calling(
        self, match: Match, callback: Callable[[Call], None], *, deliver: bool = False, **options: Any
    ) -> Iterator[Fault]:
        """Call back, in the proxy's thread, once a request was executed; by default its answer is lost.

        No call back comes after the end of the block: what a request did can be seen before its answer has arrived.
        """

        async def after(call: Call) -> bool:
            callback(call)
            return deliver

        with self.fault(Fault(match, after=after, **options)) as fault:
            yield fault
        self._background.run(_turn())  # a request that found the fault has counted itself
        awaited("the requests under way", lambda: fault.answered == fault.hits)

    @contextmanager
    def holding(self, match: Match) -> Iterator[Fault]:
        """Hold requests back until the end of the block; then they are forwarded."""
        released = self._background.run(_event())

        async def before(_: Call) -> None:
            await released.wait()

        with self.fault(Fault(match, before=before)) as fault:
            try:
                yield fault
            finally:
                self._background.loop.call_soon_threadsafe(released.set)

    @contextmanager
    def paused_watches(self, *plurals: str) -> Iterator[None]:
        """Deliver nothing of these kinds' watches until the end of the block, then everything."""
        events = {plural: self._background.run(_event()) for plural in plurals}
        self._paused |= events
        try:
            yield
        finally:
            for plural, event in events.items():
                self._paused.pop(plural)
                self._background.loop.call_soon_threadsafe(event.set)

    def cut(self) -> None:
        """Close every connection."""
        self._background.run(self._cut())

    def silence(self) -> int:
        """Make every open connection silent for good, without closing it; return how many. New ones work."""
        return int(self._background.run(self._silence()))

    async def _open(self) -> None:
        for context in self._contexts:
            connector = aiohttp.TCPConnector(ssl=context, limit=0, force_close=False)
            self._sessions.append(
                aiohttp.ClientSession(
                    connector=connector, timeout=aiohttp.ClientTimeout(total=None), auto_decompress=False
                )
            )
        server = web.Server(self._handle)
        self._runner = web.ServerRunner(server, shutdown_timeout=0.1)  # type: ignore[assignment]
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.port = int(self._runner.addresses[0][1])

    async def _close(self) -> None:
        await self._cut()
        if self._runner is not None:
            await self._runner.cleanup()
        for session in self._sessions:
            await session.close()

    async def _cut(self) -> None:
        for transport in list(self._transports):
            transport.abort()

    async def _silence(self) -> int:
        alive = [transport for transport in self._transports if not transport.is_closing()]
        for transport in alive:
            self._silent.add(transport)
        return len(alive)

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        transport = request.transport
        if transport is not None:
            self._transports.add(transport)
        payload = await request.read()
        call = _call(request, payload)
        self.calls.append(call)
        await self._heard(transport)
        fault = next((each for each in self._faults if each.takes(call)), None)
        try:
            if fault is not None and fault.before is not None and (instead := await fault.before(call)) is not None:
                await self._heard(transport)
                return instead
            return await self._forward(request, payload, call, fault)
        except (aiohttp.ClientError, OSError):
            return _aborted(request)
        finally:
            if fault is not None:
                fault.answered += 1

    async def _forward(
        self, request: web.BaseRequest, payload: bytes, call: Call, fault: Fault | None
    ) -> web.StreamResponse:
        token = "Authorization" in request.headers
        headers = {name: value for name, value in request.headers.items() if name.lower() not in _DROPPED}
        url = self._upstream + request.path_qs
        async with self._sessions[1 if token else 0].request(
            request.method, url, data=payload or None, headers=headers | {"Accept-Encoding": "identity"}
        ) as answer:
            kept = {name: value for name, value in answer.headers.items() if name.lower() not in _DROPPED}
            if call.watch and answer.status == 200:
                call.status = 200
                return await self._stream(request, answer, kept, call)
            content = await answer.read()
            call.answer = _decoded(content)
            call.status = answer.status
        if fault is not None and fault.after is not None and not await fault.after(call):
            return _aborted(request)
        await self._heard(request.transport)
        return web.Response(status=answer.status, body=content, headers=kept)

    async def _stream(
        self, request: web.BaseRequest, answer: aiohttp.ClientResponse, headers: dict[str, str], call: Call
    ) -> web.StreamResponse:
        response = web.StreamResponse(status=200, headers=headers)
        await response.prepare(request)
        while chunk := await answer.content.readany():
            await self._heard(request.transport)
            if (pause := self._paused.get(call.plural)) is not None:
                await pause.wait()
            await response.write(chunk)
        return response

    async def _heard(self, transport: Any) -> None:
        """Return unless the connection is silent; then nothing happens on it any more."""
        if transport is not None and transport in self._silent:
            await asyncio.Event().wait()


def status_body(status: int, reason: str, message: str) -> dict[str, Any]:
    """Return a Status as the API server answers it."""
    kind = {"apiVersion": "v1", "kind": "Status", "status": "Failure"}
    return {**kind, "code": status, "reason": reason, "message": message or reason}


def _call(request: web.BaseRequest, payload: bytes) -> Call:
    parts = [part for part in request.path.split("/") if part]
    rest = parts[2:] if parts[:1] == ["api"] else parts[3:]
    namespace = ""
    if rest[:1] == ["namespaces"] and len(rest) > 2:
        namespace, rest = rest[1], rest[2:]
    plural, name, subresource = (*rest, "", "", "")[:3]
    return Call(
        request.method, request.path, dict(request.query), _decoded(payload), plural, namespace, name, subresource
    )


def _decoded(payload: bytes) -> Any:
    try:
        return json.loads(payload) if payload else None
    except ValueError:
        return None


def _aborted(request: web.BaseRequest) -> web.Response:
    if request.transport is not None:
        request.transport.abort()
    return web.Response(status=503)


async def _turn() -> None:
    """Let what the loop is doing end."""


async def _event() -> asyncio.Event:
    return asyncio.Event()


def on(
    plural: str | Sequence[str] = "",
    *,
    method: str = "",
    name: str = "",
    namespace: str = "",
    subresource: str | None = None,
) -> Match:
    """Match requests by what is given; reads never match unless their method is."""
    plurals = (plural,) if isinstance(plural, str) else tuple(plural)

    def match(call: Call) -> bool:
        return (
            (not any(plurals) or call.plural in plurals)
            and (call.method == method if method else call.write)
            and (not name or call.target == name)
            and (not namespace or call.namespace == namespace)
            and (subresource is None or call.subresource == subresource)
        )

    return match
