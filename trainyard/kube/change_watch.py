"""Watches of several kinds that only tell that something has changed, for a reader that then lists what it needs."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Final

from trainyard.kube.api_errors import ApiError, TransportError, WatchBrokenError
from trainyard.kube.client import Client
from trainyard.kube.resource import Resource

API_FAILURES: Final = (ApiError, TransportError, WatchBrokenError, OSError)
"""What a reader of an API server meets while it is away: reason to start again."""

_PAUSE_SECONDS: Final = 0.5


@contextlib.asynccontextmanager
async def watch_changes(
    client: Client, resources: Iterable[Resource], notify: Callable[[], None], *, label_selector: str | None = None
) -> AsyncIterator[None]:
    """Call a function when a watch starts and at each change of an object, until the block ends.

    A watch that fails starts again, and calls the function then: changes in between are not lost.

    Parameters
    ----------
    resources
        The kinds to watch.
    notify
        The function.
    label_selector
        Selects the objects; by default all.
    """

    async def follow(resource: Resource) -> None:
        while True:
            with contextlib.suppress(*API_FAILURES):
                page = await client.page(resource, label_selector=label_selector, limit=1)
                notify()
                async for _ in client.watch(
                    resource, resource_version=page.resource_version, label_selector=label_selector
                ):
                    notify()
            await asyncio.sleep(_PAUSE_SECONDS)

    watches = [asyncio.create_task(follow(resource)) for resource in resources]
    try:
        yield
    finally:
        for watch in watches:
            watch.cancel()
        await asyncio.gather(*watches, return_exceptions=True)
