"""A registry on this machine with as much of the OCI distribution API as resolving a tag needs."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web


@dataclass
class FakeRegistry:
    """What the registry has, and how it behaves."""

    manifests: dict[str, bytes] = field(default_factory=dict)
    token: str | None = None
    login: tuple[str, str] | None = None
    statuses: list[int] = field(default_factory=list)
    named: bool = True
    digest: str | None = None
    token_body: Any = None
    redirect: str | None = None
    challenge: str | None = None
    asked: list[str] = field(default_factory=list)
    address: str = ""

    def put(self, name: str, content: bytes) -> str:
        """Store a manifest under ``repository:tag`` and return its digest."""
        self.manifests[name] = content
        return f"sha256:{hashlib.sha256(content).hexdigest()}"

    async def manifest(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(f"{request.method} {request.path}")
        if self.statuses:
            return web.Response(status=self.statuses.pop(0), headers={"Retry-After": "0"})
        if self.redirect:
            target, self.redirect = self.redirect, None
            raise web.HTTPTemporaryRedirect(target)
        if self.token is not None and request.headers.get("Authorization") != f"Bearer {self.token}":
            default = f'Bearer realm="http://{self.address}/token",service="fake",scope="repository:x:pull"'
            return web.Response(status=401, headers={"WWW-Authenticate": self.challenge or default})
        content = self.manifests.get(f"{request.match_info['repository']}:{request.match_info['tag']}")
        if content is None:
            return web.Response(status=404)
        digest = self.digest or f"sha256:{hashlib.sha256(content).hexdigest()}"
        headers = {"Docker-Content-Digest": digest} if self.named else {}
        return web.Response(body=content, headers=headers, content_type="application/vnd.oci.image.index.v1+json")

    async def issue(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(f"token {request.query.get('service')} {request.query.get('scope')}")
        if self.login is not None:
            expected = base64.b64encode(":".join(self.login).encode()).decode()
            if request.headers.get("Authorization") != f"Basic {expected}":
                return web.Response(status=401)
        if isinstance(self.token_body, bytes):
            return web.Response(body=self.token_body)
        return web.json_response({"token": self.token} if self.token_body is None else self.token_body)


@asynccontextmanager
async def served(registry: FakeRegistry, host: str = "127.0.0.1") -> AsyncIterator[str]:
    """Run a registry and yield its address."""
    app = web.Application()
    app.router.add_route("*", "/v2/{repository:.+}/manifests/{tag}", registry.manifest)
    app.router.add_get("/token", registry.issue)
    async with listening(app, host) as registry.address:
        yield registry.address


@asynccontextmanager
async def listening(app: web.Application, host: str) -> AsyncIterator[str]:
    """Run an application on a free port and yield its address."""
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        site = web.TCPSite(runner, host, 0)
        await site.start()
        yield f"{host}:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()
