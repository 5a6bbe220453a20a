"""The live platform: its queues and its fabric."""

from __future__ import annotations

from dataclasses import dataclass

from trainyard.controller.resources import HYPER_NODES, QUEUES
from trainyard.kube import Client, Object

__all__ = ["PlatformView", "read_platform"]


@dataclass(frozen=True)
class PlatformView:
    """The live queues and HyperNodes."""

    queues: tuple[Object, ...]
    hyper_nodes: tuple[Object, ...]


async def read_platform(client: Client) -> PlatformView:
    """Read the queues and HyperNodes of a cluster."""
    return PlatformView(tuple(await client.list(QUEUES)), tuple(await client.list(HYPER_NODES)))
