"""Coroutines in a thread: the Pulumi program runs inside an event loop, which cannot run a second one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from trainyard.kube.client import Client
from trainyard.local.cluster.provider import ClusterAccess

T = TypeVar("T")


def run_in_thread(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine in a new event loop in a new thread, and return its result."""
    with ThreadPoolExecutor(1, thread_name_prefix="run_in_thread") as executor:
        return executor.submit(lambda: asyncio.run(work())).result()


def run_with_client(access: ClusterAccess, work: Callable[[Client], Awaitable[T]]) -> T:
    """Call a coroutine function with a client of the cluster, as `run_in_thread`.

    Raises
    ------
    ApiError, TransportError
        As `work` raises them.
    """

    async def connected() -> T:
        async with Client.from_kubeconfig(access.kubeconfig, access.context) as client:
            return await work(client)

    return run_in_thread(connected)
