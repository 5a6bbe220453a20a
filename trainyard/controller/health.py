"""Liveness, readiness and metrics over HTTP."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from aiohttp import web

from trainyard.controller.metrics import Metrics

__all__ = ["Checks", "health_application", "metrics_application"]

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


def metrics_application(metrics: Metrics) -> web.Application:
    """Return an application with /metrics."""

    async def scrape(_: web.Request) -> web.Response:
        return web.Response(body=metrics.text(), headers={"Content-Type": metrics.content_type})

    app = web.Application()
    app.router.add_get("/metrics", scrape)
    return app
