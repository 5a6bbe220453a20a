"""Liveness, readiness and metrics over HTTP."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from aiohttp import web

from trainyard.controller.metrics import Metrics

__all__ = ["Checks", "health_application", "metrics_application"]

Checks = Mapping[str, Callable[[], bool]]
"""What has to be true to be ready, by the words that say what is missing."""


def health_application(checks: Checks) -> web.Application:
    """Return /healthz (the event loop turns) and /readyz (everything in ``checks`` is true)."""

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
    """Return /metrics."""

    async def scrape(_: web.Request) -> web.Response:
        return web.Response(body=metrics.text(), headers={"Content-Type": metrics.content_type})

    app = web.Application()
    app.router.add_get("/metrics", scrape)
    return app
