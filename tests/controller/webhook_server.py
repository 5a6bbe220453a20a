"""The webhooks of a controller on an API server in memory, over TLS."""

from __future__ import annotations

import asyncio
import datetime
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web

from tests.controller.harness import Clock
from tests.kube.fake_api import FakeApi
from trainyard import pki
from trainyard.controller.cluster_cache import ClusterCache
from trainyard.controller.configuration import Listener, WebhookClients
from trainyard.controller.policy_review import PolicyReviewer
from trainyard.controller.servers import Servers
from trainyard.controller.serving import _file
from trainyard.controller.webhook_clients import request_certificates
from trainyard.controller.webhooks import Admission
from trainyard.policy.gate import PolicyGate

NOW, LIFE = datetime.datetime.now(datetime.UTC), datetime.timedelta(days=1)
SERVER_CA = pki.authority("server", now=NOW, lifetime=LIFE)


@asynccontextmanager
async def admission(
    api: FakeApi, gate: PolicyGate | None = None, *, policies: PolicyReviewer | None = None, redact: bool = False
) -> AsyncIterator[Admission]:
    """Yield the handlers of reviews when their caches are settled."""
    async with api.client() as client:
        cache = ClusterCache(client, namespaces=gate is not None)
        if gate is not None:
            policies = PolicyReviewer(cache, gate)
        tasks = [asyncio.create_task(informer.run()) for informer in cache.informers]
        try:
            await cache.wait_settled()
            yield Admission(client, cache, policies=policies, redact=redact, clock=Clock())
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


@asynccontextmanager
async def served(app: web.Application, clients: WebhookClients | None = None) -> AsyncIterator[str]:
    """Yield the address of a server with a certificate of SERVER_CA."""
    pair = pki.issue(SERVER_CA, "w", now=NOW, lifetime=LIFE, ip_addresses=["127.0.0.1"], server=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with _file(pair.certificate + b"\n" + pair.key) as path:
        context.load_cert_chain(path)
    if clients is not None:
        request_certificates(context, clients)
    servers = Servers()
    await servers.start("webhook", app, Listener(host="127.0.0.1", port=0), context)
    try:
        yield f"https://127.0.0.1:{servers.ports['webhook']}"
    finally:
        await servers.close()


def trusting() -> ssl.SSLContext:
    """Return the TLS settings of a client that trusts SERVER_CA."""
    return ssl.create_default_context(cadata=SERVER_CA.certificate.decode())
