"""The model of the API server, spoken to over real HTTP, with what tests record, break and hold back.

What it stores and answers is `tests/simulation/api_server.py`; here it serves kinds of every name, in namespaces that
need not exist, and removes dependents at once.
"""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from tests.simulation.api_server import ApiServer, Call, Event, RefusedError, decode
from tests.simulation.kinds import Kind, any_kind
from tests.simulation.webhooks import JobSetWebhook
from trainyard.kube.client import Client
from trainyard.kube.credentials import Connection
from trainyard.kube.resource import key_of

Body = dict[str, Any]
Fault = Callable[["FakeApi", web.Request], web.StreamResponse | None]


class FakeApi:
    """The API server of a test: objects by (collection path without namespace, namespace, name)."""

    def __init__(self) -> None:
        self.job_set_webhook = JobSetWebhook()
        self.server = ApiServer(self.job_set_webhook, namespaces=False)
        self.server.version = 10
        self.server.listeners.append(self._on_event)
        self.requests: list[tuple[str, str]] = []
        self.accepts: list[tuple[str, str]] = []
        self.writes: list[tuple[str, str]] = []
        self.unconditional: list[tuple[str, str]] = []
        """Writes that carried neither uid nor resourceVersion, creates and Events not counted."""
        self.fault: Fault | None = None
        self.after_write: Callable[[FakeApi], None] | None = None
        self.review: Callable[[Body], Body] = lambda spec: {"authenticated": False}
        self.reviewed: list[Body] = []
        self.access: Callable[[Body], bool] = lambda spec: False
        self.unserved: set[str] = set()
        self.collects = True
        """Whether dependents are removed with their last owner."""
        self.stale_at: int | None = None
        self.lagging: dict[str, int] = {}
        """By path of a collection, the version after which its watches tell nothing."""
        self.port = 0
        self._news = asyncio.Event()
        self._cut = asyncio.Event()

    @property
    def connection(self) -> Connection:
        return Connection(f"http://127.0.0.1:{self.port}")

    def client(self, **options: Any) -> Client:
        return Client(self.connection, **options)

    @property
    def objects(self) -> dict[tuple[str, str, str], Body]:
        """What is stored; a change of this has no effect."""
        stored = [(each.kind.resource.path(), each) for each in self.server.everything()]
        return {(path, *each.key): each.body for path, each in sorted(stored, key=lambda pair: (pair[0], pair[1].key))}

    @property
    def log(self) -> list[tuple[int, str, str, Body]]:
        """Version, kind, path and object of each write."""
        events = [each for events in self.server.history.values() for each in events]
        events.sort(key=lambda each: each.version)
        kinds = ("ADDED" if each.old is None else "DELETED" if each.new is None else "MODIFIED" for each in events)
        writes = zip(events, kinds, strict=True)
        return [(each.version, kind, each.last.kind.resource.path(), each.last.body) for each, kind in writes]

    @property
    def last(self) -> dict[str, int]:
        """Version of the last write by path of the collection."""
        return {kind.resource.path(): events[-1].version for kind, events in self.server.history.items() if events}

    def find(self, plural: str, name: str, namespace: str = "") -> Body | None:
        return next((body for body in self.of(plural) if key_of(body) == (namespace, name)), None)

    def of(self, plural: str) -> list[Body]:
        return [body for (path, _, _), body in self.objects.items() if path.endswith("/" + plural)]

    def owners(self, plural: str, name: str, namespace: str = "") -> dict[str, set[str]]:
        """Return the owned fields of an object by manager, as dotted paths."""
        keys = (each for each in self.objects if each[0].endswith("/" + plural) and each[1:] == (namespace, name))
        stored = self.server.objects[_kind(next(keys)[0])][namespace, name]
        return {manager: {".".join(path) for path in paths} for manager, paths in stored.owners.items() if paths}

    def compact(self) -> None:
        """Forget the history: watches and pages from before are answered 410."""
        self.server.compact()

    def expire_pages(self) -> None:
        self.server.pages.clear()

    def lose_events(self) -> None:
        """Forget the history, and answer watches from before as if there had been none."""
        for events in self.server.history.values():
            events.clear()

    def lose(self, path: str, namespace: str, name: str) -> None:
        """Forget an object without an event."""
        self.server.objects[_kind(path)].pop((namespace, name))

    def freeze_watches(self, path: str | None = None) -> None:
        """Let all watches, or those of one collection, lag: they tell nothing from now on; lists stay consistent."""
        if path is None:
            self.stale_at = self.server.version
        else:
            self.lagging[path] = self.server.version

    def thaw_watches(self) -> None:
        """Let watches catch up."""
        self.stale_at = None
        self.lagging.clear()
        self._wake()

    def cut_watches(self) -> None:
        """End every open watch in the middle of a line."""
        self._cut.set()
        self._cut = asyncio.Event()

    def put(self, path: str, body: Body) -> Body:
        """Store an object as another client would, with the defaults of JobSets."""
        kind = _kind(path)
        return self.server.put(kind, self.job_set_webhook.mutate(Call("update", kind), None, copy.deepcopy(body))).body

    def remove(self, path: str, namespace: str, name: str) -> None:
        self.server.remove(_kind(path), name, namespace)

    def _on_event(self, event: Event) -> None:
        if self.collects:
            self._collect(event)
        self._wake()

    def _collect(self, event: Event) -> None:
        """Remove the objects that the removed one was the last owner of, and what is deleted in the foreground."""
        gone = event.last
        if event.new is None:
            for stored in list(self.server.everything()):
                owners = [each["uid"] for each in stored.metadata.get("ownerReferences") or ()]
                if owners == [gone.metadata["uid"]] and self.server.find(stored.kind, *reversed(stored.key)):
                    self.server.remove(stored.kind, *reversed(stored.key))
        elif gone.metadata.get("deletionTimestamp") and gone.metadata.get("finalizers") == ["foregroundDeletion"]:
            self.server.remove(gone.kind, *reversed(gone.key))

    def _wake(self) -> None:
        self._news.set()
        self._news = asyncio.Event()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        return await self.answer(request)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.requests.append((request.method, request.path_qs))
        self.accepts.append((request.path, request.headers.get("Accept", "")))
        if self.fault is not None:
            answer = self.fault(self, request)
            if answer is not None:
                return answer
        if request.path == "/version":
            return web.json_response({"gitVersion": "v0.0.0"})
        try:
            call = decode(
                *(request.method, request.path, request.query, await request.read()),
                content_type=request.content_type,
                accept=request.headers.get("Accept", ""),
                kinds=any_kind,
            )
            plural = call.kind.resource.plural
            if plural in self.unserved:
                return web.Response(status=404, text="404 page not found\n")
            if call.verb == "watch":
                return await self._watch(request, call)
            if plural.endswith("reviews"):
                return web.json_response({**call.body, "status": self._reviewed(request, call)}, status=201)
            status, body = self._carry_out(request, call)
        except RefusedError as refused:
            return web.Response(status=refused.status, body=refused.payload, content_type="application/json")
        return web.Response(status=status, body=body, content_type="application/json")

    def _carry_out(self, request: web.Request, call: Call) -> tuple[int, bytes]:
        stores = call.writes and request.query.get("dryRun") != "All"
        unguarded = stores and call.verb != "create" and not conditional(request, call.body or {})
        if unguarded and call.kind.resource.plural != "events":
            self.unconditional.append((request.method, request.path_qs))
        answer = self.server.carry_out(call)
        if stores:
            self.writes.append((request.method, request.path))
            if self.after_write is not None:
                self.after_write(self)
        return answer

    def _reviewed(self, request: web.Request, call: Call) -> Body:
        """Return the status of a review of a token, of the sender or of access."""
        match call.kind.resource.plural:
            case "tokenreviews":
                self.reviewed.append(call.body["spec"])
                return self.review(call.body["spec"])
            case "selfsubjectreviews":
                token = request.headers["Authorization"].removeprefix("Bearer ")
                return {"userInfo": self.review({"token": token})["user"]}
        return {"allowed": self.access(call.body["spec"])}

    async def _watch(self, request: web.Request, call: Call) -> web.StreamResponse:
        version = int(request.query["resourceVersion"])
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        cut = asyncio.ensure_future(self._cut.wait())
        clock = asyncio.get_running_loop().time
        end = clock() + int(request.query.get("timeoutSeconds") or 600)
        try:
            while not cut.done():
                now = self.server.version if self.stale_at is None else self.stale_at
                now = min(now, self.lagging.get(call.kind.resource.path(), now))
                try:
                    lines, version = self.server.watch_lines(call, version, now)
                except RefusedError as refused:
                    await response.write(line("ERROR", refused.body()))
                    return response
                await response.write(lines + line("BOOKMARK", {"metadata": {"resourceVersion": str(version)}}))
                news = asyncio.ensure_future(self._news.wait())
                await asyncio.wait((news, cut), return_when=asyncio.FIRST_COMPLETED, timeout=max(0.0, end - clock()))
                news.cancel()
                if clock() >= end:
                    return response
            await response.write(b'{"type":"MODI')
        except ConnectionError:
            pass
        finally:
            cut.cancel()
        return response


@asynccontextmanager
async def serving(api: FakeApi) -> AsyncIterator[FakeApi]:
    app = web.Application(client_max_size=1 << 24)
    app.router.add_route("*", "/{tail:.*}", api.handle)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.01)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    api.port = runner.addresses[0][1]
    try:
        yield api
    finally:
        api.cut_watches()
        await runner.cleanup()


def _kind(path: str) -> Kind:
    return any_kind(*path.rsplit("/", 1))


def conditional(request: web.Request, sent: Any) -> bool:
    """Whether a write names the incarnation or the version it is meant for."""
    if isinstance(sent, list):
        tested = {operation["path"] for operation in sent if operation["op"] == "test"}
        return bool(tested & {"/metadata/uid", "/metadata/resourceVersion"})
    named = sent.get("preconditions" if request.method == "DELETE" else "metadata") or {}
    return bool(named.get("uid") or named.get("resourceVersion"))


def line(kind: str, body: Body) -> bytes:
    return json.dumps({"type": kind, "object": body}).encode() + b"\n"


def error(status: int, reason: str, message: str, **headers: str) -> web.Response:
    body = {"kind": "Status", "status": "Failure", "code": status, "reason": reason, "message": message}
    return web.json_response(
        body, status=status, headers={name.replace("_", "-"): value for name, value in headers.items()}
    )


def missing(name: str) -> web.Response:
    """Say that an object does not exist, as the API server does: the details name it."""
    status = {"kind": "Status", "status": "Failure", "code": 404, "reason": "NotFound", "message": f"{name} not found"}
    return web.json_response({**status, "details": {"name": name}}, status=404)


async def eventually(probe: Callable[[], Any], *, within: float = 60.0) -> Any:
    """Return the first true answer of a probe."""
    async with asyncio.timeout(within):
        while True:
            answer = probe()
            if answer:
                return answer
            await asyncio.sleep(0.002)
