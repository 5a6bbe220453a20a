"""A registry on this machine that accepts uploads, with tokens and the faults of real ones."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web

from tests.runtimes.fake_registry import listening


@dataclass
class UploadRegistry:
    """What the registry has, and how it behaves."""

    login: tuple[str, str] | None = None
    location: str = ""
    broken_connections: int = 0
    refused: bool = False
    redirected: str = ""
    elsewhere: str = ""
    blobs: dict[str, bytes] = field(default_factory=dict)
    manifests: dict[str, bytes] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)
    address: str = ""

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(f"{request.method} {request.path}")
        pushes = request.method in ("POST", "PUT")
        if self.login is not None and request.headers.get("Authorization") != f"Bearer {'push' if pushes else 'pull'}":
            scope = f"repository:team/tool:{'pull,push' if pushes else 'pull'}"
            realm = f'Bearer realm="http://{self.address}/token",service="fake",scope="{scope}"'
            return web.Response(status=401, headers={"WWW-Authenticate": realm})
        kind, _, rest = request.path.removeprefix("/v2/team/tool/").partition("/")
        if f"{request.method} {kind}" == self.redirected:
            raise web.HTTPTemporaryRedirect(f"http://{self.elsewhere}{request.path_qs}")
        if kind == "manifests":
            return await self._manifest(request, rest)
        if request.method == "HEAD":
            return web.Response(status=200 if rest in self.blobs else 404)
        if request.method == "POST":
            if self.refused:
                return web.Response(status=403)
            return web.Response(
                status=202, headers={"Location": self.location or "/v2/team/tool/blobs/uploads/1?state=a"}
            )
        if self.broken_connections:
            self.broken_connections -= 1
            assert request.transport is not None
            request.transport.close()
            return web.Response()
        content = await request.read()
        digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
        if (request.query["digest"], request.query["state"]) != (digest, "a"):
            return web.Response(status=400)
        self.blobs[digest] = content
        return web.Response(status=201)

    async def _manifest(self, request: web.Request, tag: str) -> web.StreamResponse:
        if request.method == "PUT":
            content = await request.read()
            digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
            self.manifests[tag] = self.manifests[digest] = content
            return web.Response(status=201)
        found = self.manifests.get(tag)
        if found is None:
            return web.Response(status=404)
        return web.Response(headers={"Docker-Content-Digest": f"sha256:{hashlib.sha256(found).hexdigest()}"})

    async def issue(self, request: web.Request) -> web.StreamResponse:
        expected = base64.b64encode(":".join(self.login or ("", "")).encode()).decode()
        if request.headers.get("Authorization") != f"Basic {expected}":
            return web.Response(status=401)
        return web.json_response({"token": "push" if "push" in request.query["scope"] else "pull"})


@asynccontextmanager
async def accepting(registry: UploadRegistry, host: str = "127.0.0.1") -> AsyncIterator[str]:
    """Run a registry and yield its address."""
    app = web.Application(client_max_size=1 << 26)
    app.router.add_route("*", "/v2/{path:.+}", registry.handle)
    app.router.add_get("/token", registry.issue)
    async with listening(app, host) as registry.address:
        yield registry.address
