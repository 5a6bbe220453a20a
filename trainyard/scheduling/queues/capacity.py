"""Capacity of the fabric: total, per node, and resource names of devices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trainyard.settings.stack import StackSettings


NODE_GROUP_LABEL = "volcano.sh/nodegroup-name"
"""Node label that plug-in nodegroup reads as the node's group."""


@dataclass(frozen=True)
class Capacity:
    """Capacity of a cluster.

    Parameters
    ----------
    total
        Capacity of all nodes, Kubernetes quantity by resource; None if unknown.
    node
        Capacity of one node; None if nodes differ.
    shapes
        Capacity of one node by shape.
    devices
        Resources that count as accelerators.
    node_groups
        Node groups of the nodes; None if unknown.
    """

    total: Mapping[str, str] | None = None
    node: Mapping[str, str] | None = None
    shapes: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    devices: tuple[str, ...] = ()
    node_groups: frozenset[str] | None = None


def capacity_of(settings: StackSettings) -> Capacity:
    """Return the capacity of a stack's fabric."""
    fabric = settings.fabric
    used = tuple(fabric.node_counts) or ("",)
    groups = {group for name in used if (group := fabric.shape(name).labels.get(NODE_GROUP_LABEL))}
    return Capacity(
        total=fabric.capacity or None,
        node=fabric.shape(used[0]).capacity if len(used) == 1 else None,
        shapes={name: shape.capacity for name, shape in fabric.shapes.items()},
        devices=settings.accelerator_resources,
        # Existing nodes may have labels that are not in the settings.
        node_groups=frozenset(groups) or None,
    )
