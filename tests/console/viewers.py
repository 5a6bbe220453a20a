"""Console of several viewers over TLS, on an API server in memory that knows their tokens and rights."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import re
import ssl
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import httpx
from aiohttp import web

from tests.console.recorded_platform import platform
from tests.console.test_live_source import put
from tests.kube.fake_api import FakeApi, error, serving
from trainyard import pki
from trainyard.insight.console.cluster_server import ClusterConsole, serve_cluster
from trainyard.kube.credentials import Connection, Credentials

ACCOUNT = "account-token"
"""Token of the console's own ServiceAccount."""
SHARED = ("queues", "hypernodes", "nodes", "priorityclasses", "platforms")
"""Cluster-scoped kinds that every viewer may list."""
HOST = "console.example.com"


class Rights:
    """Viewers by token, and the namespaces that each may read; `*`: all.

    The API server of the tests rejects every other request, also of the console's account, and every write.
    """

    def __init__(self) -> None:
        self.tokens: dict[str, str] = {"alice-token": "alice", "bob-token": "bob", "root-token": "root"}
        self.namespaces: dict[str, set[str]] = {"alice": {"vision"}, "bob": {"language"}, "root": {"*"}}
        self.seen: list[tuple[str, str, str]] = []
        """Token, method and path of each request."""
        self.away = False

    def review(self, spec: Mapping[str, Any]) -> dict[str, Any]:
        name = self.tokens.get(spec["token"])
        return {"authenticated": False} if name is None else {"authenticated": True, "user": {"username": name}}

    def fault(self, _: FakeApi, request: web.Request) -> web.Response | None:
        token = request.headers.get("Authorization", "").removeprefix("Bearer ")
        self.seen.append((token, request.method, request.path))
        if self.away:
            return error(500, "InternalError", "away")
        if token not in self.tokens:
            return error(401, "Unauthorized", "Unauthorized")
        if request.method == "POST" and request.path.endswith("/selfsubjectreviews"):
            return None
        if request.method != "GET":
            return error(403, "Forbidden", "viewers only read")
        may = self.namespaces[self.tokens[token]]
        found = re.search(r"/namespaces/([^/]+)/", request.path)
        shared = any(request.path.endswith(f"/{each}") for each in SHARED)
        allowed = "*" in may or shared or (found is not None and found[1] in may)
        return None if allowed else error(403, "Forbidden", "no")


def certificate(folder: Path, name: str = HOST) -> ssl.SSLContext:
    """Write a serving certificate; return a context that trusts it."""
    now = datetime.datetime.now(datetime.UTC)
    authority = pki.authority("console", now=now, lifetime=datetime.timedelta(days=1))
    pair = pki.issue(
        *(authority, name),
        now=now,
        lifetime=datetime.timedelta(hours=1),
        dns_names=[name, "localhost"],
        ip_addresses=["127.0.0.1"],
        server=True,
    )
    (folder / "tls.crt").write_bytes(pair.certificate)
    (folder / "tls.key").write_bytes(pair.key)
    (folder / "server-ca.crt").write_bytes(authority.certificate)
    return ssl.create_default_context(cadata=authority.certificate.decode())


class Served:
    """A served console."""

    console: ClusterConsole

    def __init__(self, port: int, trust: ssl.SSLContext, api: FakeApi, rights: Rights) -> None:
        self.base = f"https://127.0.0.1:{port}"
        self.trust, self.api, self.rights = trust, api, rights

    @contextlib.asynccontextmanager
    async def browser(self, passed: str = "") -> AsyncIterator[httpx.AsyncClient]:
        """Yield a client; a proxy in front of it passes on a token."""
        headers = {"authorization": f"Bearer {passed}"} if passed else {}
        async with httpx.AsyncClient(base_url=self.base, verify=self.trust, timeout=30, headers=headers) as client:
            yield client

    async def sign_in(self, client: httpx.AsyncClient, token: str, to: str = "/") -> httpx.Response:
        form = {"token": token, "to": to}
        return await client.post("/sign-in", data=form, headers={"origin": self.base})


@contextlib.asynccontextmanager
async def console(folder: Path, **options: Any) -> AsyncIterator[Served]:
    """Serve a console about the recorded platform."""
    rights, api = Rights(), FakeApi()
    trust = certificate(folder)
    async with serving(api):
        for body in platform().bodies:
            put(api, body)
        api.fault, api.review = rights.fault, rights.review
        settings: dict[str, Any] = {"namespaces": ("vision", "language", "secret"), "hosts": (HOST,), **options}
        found = ClusterConsole(
            connection=Connection(f"http://127.0.0.1:{api.port}", Credentials(token=ACCOUNT)), name="test", **settings
        )
        port: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        task = asyncio.create_task(serve_cluster(found, folder, host="127.0.0.1", port=0, ready=port.set_result))
        await asyncio.wait({task, port}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            task.result()
        try:
            served = Served(port.result(), trust, api, rights)
            served.console = found
            yield served
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
