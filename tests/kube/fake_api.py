"""An API server in memory, spoken to over real HTTP: pages, watches, applies, preconditions, and faults on request."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from tests.kube.field_ownership import FieldOwnership, manager_of
from tests.simulation.patches import PatchError
from tests.simulation.webhooks import immutable_changes
from trainyard.kube.client import Client
from trainyard.kube.credentials import Connection

Body = dict[str, Any]
Fault = Callable[["FakeApi", web.Request], web.StreamResponse | None]
WRITES = ("POST", "PUT", "PATCH", "DELETE")


class FakeApi:
    """Objects by (collection path without namespace, namespace, name); every write has its own resourceVersion."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str, str], Body] = {}
        self.version = 10
        self.last: dict[str, int] = {}
        self.log: list[tuple[int, str, str, Body]] = []
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
        self.ownership = FieldOwnership()
        self.unserved: set[str] = set()
        self.pruned: dict[str, set[str]] = {}
        """By plural, fields of the status that the CustomResourceDefinition does not know."""
        self.collects = True
        """Whether dependents are removed with their last owner."""
        self.compacted = 0
        self.stale_at: int | None = None
        self.lagging: dict[str, int] = {}
        """By path of a collection, the version after which its watches tell nothing."""
        self.port = 0
        self._uids = 0
        self._news = asyncio.Event()
        self._continues: dict[str, list[Body]] = {}
        self._cut = asyncio.Event()

    @property
    def connection(self) -> Connection:
        return Connection(f"http://127.0.0.1:{self.port}")

    def client(self, **options: Any) -> Client:
        return Client(self.connection, **options)

    def find(self, plural: str, name: str, namespace: str = "") -> Body | None:
        found = [
            body
            for (path, ns, n), body in self.objects.items()
            if path.endswith("/" + plural) and (ns, n) == (namespace, name)
        ]
        return found[0] if found else None

    def of(self, plural: str) -> list[Body]:
        return [body for (path, _, _), body in sorted(self.objects.items()) if path.endswith("/" + plural)]

    def compact(self) -> None:
        """Forget the history: watches from before are answered 410."""
        self.compacted = self.version

    def freeze_watches(self, path: str | None = None) -> None:
        """Let all watches, or those of one collection, lag: they tell nothing from now on; lists stay consistent."""
        if path is None:
            self.stale_at = self.version
        else:
            self.lagging[path] = self.version

    def thaw_watches(self) -> None:
        """Let watches catch up."""
        self.stale_at = None
        self.lagging.clear()
        self._news.set()
        self._news = asyncio.Event()

    def cut_watches(self) -> None:
        """End every open watch in the middle of a line."""
        self._cut.set()
        self._cut = asyncio.Event()

    def put(self, path: str, body: Body, *, manager: str | None = "another client") -> Body:
        """Store an object as another client would, or for a manager; None: its fields' owners are known already."""
        metadata = body["metadata"]
        key = path, metadata.get("namespace", ""), metadata["name"]
        old = self.objects.get(key)
        new = copy.deepcopy(body)
        for field in self.pruned.get(path.rsplit("/", 1)[-1], ()):
            (new.get("status") or {}).pop(field, None)
        if old is not None and new == old:
            return old
        self.version += 1
        self.last[path] = self.version
        if old is None:
            self._uids += 1
            new["metadata"].setdefault("uid", f"uid-{self._uids}")
            new["metadata"].setdefault("creationTimestamp", "2026-01-01T00:00:00Z")
            new["metadata"]["generation"] = 1
        else:
            for name in ("uid", "creationTimestamp"):
                new["metadata"][name] = old["metadata"][name]
            changed = old.get("spec") != new.get("spec")
            new["metadata"]["generation"] = old["metadata"]["generation"] + (1 if changed else 0)
        new["metadata"]["resourceVersion"] = str(self.version)
        self.objects[key] = new
        if manager is not None:
            self.ownership.updated(old, new, manager)
        self._tell("ADDED" if old is None else "MODIFIED", path, new)
        return new

    def remove(self, path: str, namespace: str, name: str) -> None:
        body = copy.deepcopy(self.objects.pop((path, namespace, name)))
        self.version += 1
        self.last[path] = self.version
        body["metadata"]["resourceVersion"] = str(self.version)
        self.ownership.forget(body["metadata"]["uid"])
        self._tell("DELETED", path, body)
        if self.collects:
            self._collect(body["metadata"]["uid"])

    def _collect(self, uid: str) -> None:
        """Remove the objects that the removed one was the last owner of, as the garbage collector does."""
        for (path, namespace, name), body in list(self.objects.items()):
            owners = [each["uid"] for each in body["metadata"].get("ownerReferences") or ()]
            if owners == [uid] and (path, namespace, name) in self.objects:
                self.remove(path, namespace, name)

    def _tell(self, kind: str, path: str, body: Body) -> None:
        self.log.append((self.version, kind, path, copy.deepcopy(body)))
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
        path, namespace, name, sub = parse_path(request.path)
        if path.rsplit("/", 1)[-1] in self.unserved:
            return web.Response(status=404, text="404 page not found\n")
        if request.method == "GET":
            if name:
                body = self.objects.get((path, namespace, name))
                if body and "as=PartialObjectMetadata" in request.headers.get("Accept", ""):
                    body = {"kind": "PartialObjectMetadata", "metadata": body["metadata"]}
                return web.json_response(body) if body else missing(name)
            if request.query.get("watch") == "true":
                return await self._watch(request, path, namespace)
            return self._list(request, path, namespace)
        if request.query.get("dryRun") == "All":
            return web.json_response(await request.json())  # it stores nothing
        answer = await self._write(request, path, namespace, name, sub)
        if answer.status < 300:
            self.writes.append((request.method, request.path))
            if self.after_write is not None:
                self.after_write(self)
        return answer

    async def _write(self, request: web.Request, path: str, namespace: str, name: str, sub: str) -> web.Response:
        sent = await request.json()
        if not (request.method == "POST" or path.endswith("/events") or conditional(request, sent)):
            self.unconditional.append((request.method, request.path_qs))
        held = self.objects.get((path, namespace, name))
        by = request.query.get("fieldManager", "")
        manager = manager_of(by, "Update", sub)
        if request.method == "POST" and path.endswith("/tokenreviews"):
            self.reviewed.append(sent["spec"])
            return web.json_response({**sent, "status": self.review(sent["spec"])}, status=201)
        if request.method == "POST" and path.endswith("/selfsubjectreviews"):
            user = self.review({"token": request.headers["Authorization"].removeprefix("Bearer ")})["user"]
            return web.json_response({**sent, "status": {"userInfo": user}}, status=201)
        if request.method == "POST" and path.endswith("/subjectaccessreviews"):
            return web.json_response({**sent, "status": {"allowed": self.access(sent["spec"])}}, status=201)
        if request.method == "POST":
            name = sent["metadata"]["name"]
            if (path, namespace, name) in self.objects:
                return error(409, "AlreadyExists", f"{name} already exists")
            return web.json_response(self.put(path, sent, manager=manager), status=201)
        if request.method == "DELETE":
            if held is None:
                return missing(name)
            for field, value in (sent.get("preconditions") or {}).items():
                if value != held["metadata"][field]:
                    return error(409, "Conflict", f"{field} does not match")
            self.remove(path, namespace, name)
            return web.json_response({"kind": "Status", "status": "Success"})
        apply = "apply-patch" in request.headers["Content-Type"]
        if held is None and not apply:
            return missing(name)
        wanted = {} if isinstance(sent, list) else sent.get("metadata") or {}
        for field in ("resourceVersion",) if sub else ("resourceVersion", "uid"):
            if held is not None and wanted.get(field) and wanted[field] != held["metadata"][field]:
                if field == "uid" and request.method == "PATCH":
                    said = f'metadata.uid: Invalid value: "{wanted[field]}": field is immutable'
                    return error(422, "Invalid", f'"{name}" is invalid: {said}')
                return error(409, "Conflict", f"{field} does not match")
        if held is None and wanted.get("uid"):
            return error(409, "Conflict", "no existing object has this uid")
        if held is None:
            new = self.put(path, sent, manager=None)
            self.ownership.created(new, sent, by)
            return web.json_response(new, status=201)
        if "json-patch" in request.headers["Content-Type"]:
            new = json_patched(held, sent)
            if new is None:
                return error(422, "Invalid", "the server rejected our request due to an error in our request")
        elif apply:
            force = request.query.get("force") == "true"
            try:
                new = self.ownership.applied(held, sent, by, subresource=sub, force=force)
            except PatchError as conflict:
                return error(409, "Conflict", str(conflict))
        elif request.method == "PUT":
            new = sent
        else:
            new = merged(held, sent)
        if sub == "status":
            new = {**held, "status": new.get("status", {})}
        unchanged = new == held or (request.method == "PUT" and {**new, "metadata": 0} == {**held, "metadata": 0})
        if unchanged and not isinstance(sent, list):
            return web.json_response(held)
        if path.endswith("/jobsets") and (wrong := sorted(immutable_changes(held["spec"], new["spec"]))):
            said = "; ".join(f"{field}: Invalid value: field is immutable" for field in wrong)
            return error(422, "Invalid", f'admission webhook "vjobset.kb.io" denied the request: {said}')
        return web.json_response(self.put(path, new, manager=None if apply else manager))

    def _list(self, request: web.Request, path: str, namespace: str) -> web.Response:
        token = request.query.get("continue")
        if token:
            if token not in self._continues:
                return error(410, "Expired", "the continue token is too old")
            items = self._continues.pop(token)
        else:
            items = [
                body
                for (p, ns, _), body in sorted(self.objects.items())
                if p == path and (not namespace or ns == namespace)
            ]
            items = [body for body in items if selected(body, request)]
        limit = int(request.query.get("limit", 0)) or len(items)
        metadata = {"resourceVersion": str(self.version)}
        if len(items) > limit:
            metadata["continue"] = f"c{len(self._continues)}-{self.version}"
            self._continues[metadata["continue"]] = items[limit:]
        return web.json_response({"kind": "List", "metadata": metadata, "items": items[:limit]})

    def expire_pages(self) -> None:
        self._continues.clear()

    async def _watch(self, request: web.Request, path: str, namespace: str) -> web.StreamResponse:
        version = int(request.query["resourceVersion"])
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        if version < self.compacted:
            gone = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version"}
            await response.write(line("ERROR", gone))
            return response
        cut = asyncio.ensure_future(self._cut.wait())
        clock = asyncio.get_running_loop().time
        end = clock() + int(request.query.get("timeoutSeconds") or 600)
        try:
            while not cut.done():
                now = self.version if self.stale_at is None else self.stale_at
                now = min(now, self.lagging.get(path, now))
                for at, kind, where, body in self.log:
                    inside = where == path and (not namespace or body["metadata"].get("namespace", "") == namespace)
                    if version < at <= now and inside and selected(body, request):
                        await response.write(line(kind, body))
                version = max(version, now)
                bookmark = {"metadata": {"resourceVersion": str(version)}}
                await response.write(line("BOOKMARK", bookmark))
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


def parse_path(path: str) -> tuple[str, str, str, str]:
    parts = path.strip("/").split("/")
    base = 2 if parts[0] == "api" else 3
    prefix, rest = parts[:base], parts[base:]
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2:
        namespace, rest = rest[1], rest[2:]
    rest = [*rest, "", ""]
    return "/" + "/".join([*prefix, rest[0]]), namespace, rest[1], rest[2]


def conditional(request: web.Request, sent: Any) -> bool:
    """Whether a write names the incarnation or the version it is meant for."""
    if isinstance(sent, list):
        tested = {operation["path"] for operation in sent if operation["op"] == "test"}
        return bool(tested & {"/metadata/uid", "/metadata/resourceVersion"})
    named = sent.get("preconditions" if request.method == "DELETE" else "metadata") or {}
    return bool(named.get("uid") or named.get("resourceVersion"))


def selected(body: Body, request: web.Request) -> bool:
    field = request.query.get("fieldSelector", "")
    if field.startswith("metadata.name=") and body["metadata"]["name"] != field.partition("=")[2]:
        return False
    labels = body["metadata"].get("labels") or {}
    return all(_matches(term, labels) for term in request.query.get("labelSelector", "").split(",") if term)


def _matches(term: str, labels: dict[str, str]) -> bool:
    """Whether labels meet one term of a selector: name=value, name (it is there) or !name (it is not)."""
    name, equals, value = term.partition("=")
    if equals:
        return labels.get(name) == value
    return name.removeprefix("!") not in labels if name.startswith("!") else name in labels


def merged(old: Any, new: Any) -> Any:
    if not isinstance(old, dict) or not isinstance(new, dict):
        return copy.deepcopy(new)
    result = copy.deepcopy(old)
    for name, value in new.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merged(old.get(name), value)
    return result


def json_patched(body: Body, operations: list[Body]) -> Body | None:
    body = copy.deepcopy(body)
    for operation in operations:
        *parents, last = operation["path"].strip("/").split("/")
        target: Any = body
        for part in parents:
            target = target[int(part)] if isinstance(target, list) else target[part]
        if operation["op"] == "test":
            if target.get(last) != operation["value"]:
                return None
        else:
            target[last] = operation["value"]
    return body


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
