"""Watch deletions that take long, and report what holds them.

Pulumi only says that a resource is scheduled for deletion, until its deletion times out after ten minutes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from trainyard.errors import TrainyardError
from trainyard.kube.api_errors import ApiError, TransportError
from trainyard.kube.client import Client
from trainyard.local.cluster.provider import ClusterAccess
from trainyard.platform.deploy.engine_events import EventLog
from trainyard.platform.deploy.repeated_action import repeated
from trainyard.platform.takeover.deletion_blockers import read_blockers

PATIENCE = 10.0
"""Seconds after which a deletion takes long."""

_INTERVAL = 5.0
_MAX_LOOKUPS = 10


async def report_blockers(client: Client, events: EventLog) -> None:
    """Look up what holds each deletion that takes long, and add it to the progress."""
    for urn, address in events.deleting(PATIENCE)[:_MAX_LOOKUPS]:
        with suppress(ApiError, TransportError):
            blockers = await read_blockers(client, *address)
            events.hold(urn, "; ".join(map(str, blockers)))


@contextmanager
def watch_deletions(access: ClusterAccess, events: EventLog) -> Iterator[None]:
    """Report what holds deletions while an operation runs; an unreachable cluster is ignored."""

    async def look() -> None:
        async with Client.from_kubeconfig(access.kubeconfig, access.context, patience=0.0) as client:
            await report_blockers(client, events)

    def watch() -> None:
        if events.deleting(PATIENCE):
            with suppress(ApiError, TransportError, TrainyardError):
                asyncio.run(look())

    with repeated(watch, _INTERVAL):
        yield
