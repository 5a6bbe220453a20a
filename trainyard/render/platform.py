"""What the Platform object says that rendering needs."""

from __future__ import annotations

from dataclasses import replace

from trainyard.api import Platform
from trainyard.render.result import RenderContext

__all__ = ["context_of"]


def context_of(platform: Platform | None, context: RenderContext) -> RenderContext:
    """Return a context with what the platform offers: scheduler features and levels of the fabric.

    A Platform that lists neither says nothing about them; one that lists features and no level has no fabric.

    Parameters
    ----------
    platform
        The object ``platform``; None where there is none.
    context
        What else is known of the cluster.
    """
    if platform is None or not (platform.spec.scheduler_features or platform.spec.tiers):
        return context
    features = platform.spec.scheduler_features
    return replace(
        context,
        scheduler_features=frozenset(features) if features else None,
        tiers={tier.name: tier.tier for tier in platform.spec.tiers},
    )
