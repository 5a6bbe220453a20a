"""Refresh the HyperNodes that choose their nodes by label.

Volcano 1.14.1 adds a relabeled node to the HyperNode that it matches now, but reads the nodes of the one that it left
only when that HyperNode is written: until then the node is in both. Upstream source: ``triggerUpdateHyperNode`` in
``pkg/scheduler/cache/event_handlers.go``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from datetime import UTC, datetime

from trainyard.kube.api_errors import ApiError
from trainyard.kube.client import Client
from trainyard.kube.training_kinds import HYPER_NODES

REFRESHED = "trainyard.dev/nodes-refreshed"
"""Annotation with the time of the last write; any write makes the scheduler read the nodes."""


async def refresh_hyper_nodes(client: Client, names: Iterable[str]) -> list[str]:
    """Write an annotation to HyperNodes, so that Volcano reads their nodes again; return those that exist."""
    patch = {"metadata": {"annotations": {REFRESHED: datetime.now(UTC).isoformat()}}}

    async def refresh(name: str) -> list[str]:
        try:
            await client.merge_patch(HYPER_NODES, name, patch)
        except ApiError as error:
            if not error.not_found:
                raise
            return []
        return [name]

    return [name for written in await asyncio.gather(*(refresh(name) for name in names)) for name in written]
