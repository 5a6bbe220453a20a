"""Capacity of the fabric: the total, one node's part, and the names of devices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from trainyard.settings import StackSettings

__all__ = ["NODE_GROUP_LABEL", "Supply", "supply_of"]

NODE_GROUP_LABEL = "volcano.sh/nodegroup-name"
"""Label by which plug-in nodegroup knows the group of a node."""


@dataclass(frozen=True)
class Supply:
    """What a cluster offers.

    Parameters
    ----------
    total
        What all nodes offer together, Kubernetes quantity by resource; None when that is not known.
    node
        What one node offers; None when nodes differ.
    shapes
        What one node of each named shape offers.
    devices
        Resources that count as accelerators.
    node_groups
        Node groups that nodes carry; None when that is not known.
    """

    total: Mapping[str, str] | None = None
    node: Mapping[str, str] | None = None
    shapes: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    devices: tuple[str, ...] = ()
    node_groups: frozenset[str] | None = None


def supply_of(settings: StackSettings) -> Supply:
    """Return what the fabric of a stack offers."""
    fabric = settings.fabric
    used = tuple(fabric.node_counts) or ("",)
    groups = {group for name in used if (group := fabric.shape(name).labels.get(NODE_GROUP_LABEL))}
    return Supply(
        total=fabric.capacity or None,
        node=fabric.shape(used[0]).capacity if len(used) == 1 else None,
        shapes={name: shape.capacity for name, shape in fabric.shapes.items()},
        devices=settings.accelerator_resources,
        # Nodes that exist already may carry labels that the settings do not repeat.
        node_groups=frozenset(groups) or None,
    )
