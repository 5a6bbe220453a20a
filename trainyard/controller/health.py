"""Liveness, readiness and metrics over HTTP; also the metrics of the policy server beside the controller."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Final

from aiohttp import web

from trainyard.controller.metrics import Metrics
from trainyard.controller.metrics_access import MetricsAccess
from trainyard.errors import TrainyardError
from trainyard.listening import client_key

_POLICY_CONTENT: Final = "text/plain; version=0.0.4; charset=utf-8"

Checks = Mapping[str, Callable[[], bool]]
"""Readiness conditions by name; the names of false ones are in the response."""


def health_application(checks: Checks) -> web.Application:
    """Return an application with /healthz (the event loop runs) and /readyz (all checks are true)."""

    async def healthz(_: web.Request) -> web.Response:
        return web.Response(text="ok")

    async def readyz(_: web.Request) -> web.Response:
        missing = [name for name, check in checks.items() if not check()]
        if missing:
            return web.Response(status=503, text="waiting for: " + ", ".join(missing))
        return web.Response(text="ok")

    app = web.Application()
    app.router.add_get("/healthz", healthz)
    app.router.add_get("/readyz", readyz)
    return app


def metrics_application(
    metrics: Metrics, access: MetricsAccess | None, policy_metrics: Callable[[], Awaitable[bytes]] | None = None
) -> web.Application:
    """Return an application with /metrics and /metrics/opa.

    Parameters
    ----------
    metrics
        Metrics of the process.
    access
        Reviews who may read them; None: anyone, because a connection without TLS would reveal tokens.
    policy_metrics
        Reads the metrics of the policy server; None: there are none.
    """

    async def scrape(request: web.Request) -> web.Response:
        if (refusal := await _refusal(request, access)) is not None:
            return refusal
        return web.Response(body=metrics.text(), headers={"Content-Type": metrics.content_type})

    async def scrape_policy_server(request: web.Request) -> web.Response:
        if (refusal := await _refusal(request, access)) is not None:
            return refusal
        if policy_metrics is None:
            return web.Response(status=HTTPStatus.NOT_FOUND, text="no policy server")
        try:
            return web.Response(body=await policy_metrics(), headers={"Content-Type": _POLICY_CONTENT})
        except TrainyardError as error:
            return web.Response(status=HTTPStatus.BAD_GATEWAY, text=str(error))

    app = web.Application()
    app.router.add_get("/metrics", scrape)
    app.router.add_get("/metrics/opa", scrape_policy_server)
    return app


async def _refusal(request: web.Request, access: MetricsAccess | None) -> web.Response | None:
    if access is None:
        return None
    sender = client_key(request.remote or "")
    status = await access.status(request.headers.get("Authorization", ""), request.path, sender)
    if status is HTTPStatus.OK:
        return None
    headers = {"WWW-Authenticate": "Bearer"} if status is HTTPStatus.UNAUTHORIZED else {}
    return web.Response(status=status, text=status.phrase, headers=headers)
