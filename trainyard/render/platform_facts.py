"""The Platform object, as far as rendering reads it."""

from __future__ import annotations

from dataclasses import replace

from trainyard.api import Platform
from trainyard.render.result import RenderContext, StatusServer

__all__ = ["context_of"]


def context_of(platform: Platform | None, context: RenderContext) -> RenderContext:
    """Return a context with what the platform offers: scheduler features, levels of the fabric, the status server.

    A Platform that lists neither features nor levels says nothing about them; one that lists features and no level has
    no fabric.

    Parameters
    ----------
    platform
        The object ``platform``; None where there is none.
    context
        What else is known of the cluster.
    """
    if platform is None:
        return context
    spec = platform.spec
    if spec.status_server is not None:
        server = spec.status_server
        context = replace(context, status_server=StatusServer(server.service, server.namespace, server.port))
    if not (spec.scheduler_features or spec.tiers):
        return context
    return replace(
        context,
        scheduler_features=frozenset(spec.scheduler_features) if spec.scheduler_features else None,
        tiers={tier.name: tier.tier for tier in spec.tiers},
    )
