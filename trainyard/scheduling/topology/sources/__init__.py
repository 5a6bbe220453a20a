"""Fabric sources: one module per source, registered by name."""

from __future__ import annotations

from trainyard.errors import TrainyardError
from trainyard.scheduling.topology.sources import (
    description,
    hypernode_tree,
    ibnetdiscover,
    inventory,
    node_labels,
    topograph,
)
from trainyard.scheduling.topology.sources.base import FabricSource

SOURCES: dict[str, FabricSource] = {
    each.SOURCE.name: each.SOURCE
    for each in (description, inventory, node_labels, hypernode_tree, topograph, ibnetdiscover)
}
"""Every source by its name."""


def source(name: str) -> FabricSource:
    """Return a source by name.

    Raises
    ------
    TrainyardError
        The source does not exist; the message lists those that do.
    """
    if name not in SOURCES:
        raise TrainyardError(f"Source {name!r} does not exist", fix=f"use one of: {', '.join(SOURCES)}")
    return SOURCES[name]
