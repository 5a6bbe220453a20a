"""Facts that rendering reads from the Platform object."""

from __future__ import annotations

from dataclasses import replace

from trainyard.api import Platform
from trainyard.jobs.render.result import RenderContext, StatusServerAddress


def context_of(platform: Platform | None, context: RenderContext) -> RenderContext:
    """Return the context with the facts of the Platform: scheduler, tiers of the fabric, status server, JobSet's gates.

    If a Platform lists neither features nor tiers, both are unknown. If it lists features but no tiers, the cluster
    has no fabric.

    Parameters
    ----------
    platform
        The Platform object; None: it does not exist.
    context
        Other facts about the cluster.
    """
    if platform is None:
        return context
    spec = platform.spec
    if spec.status_server is not None:
        server = spec.status_server
        context = replace(context, status_server=StatusServerAddress(server.service, server.namespace, server.port))
    context = replace(context, job_set_gates=frozenset(spec.job_set_feature_gates))
    if not (spec.scheduler_features or spec.tiers):
        return context
    return replace(
        context,
        scheduler_features=frozenset(spec.scheduler_features) if spec.scheduler_features else None,
        tiers={tier.name: tier.tier for tier in spec.tiers},
    )
