"""Names in a fabric: generated node names, and topology labels."""

from __future__ import annotations

from trainyard.settings.fabric import NodeSelector

HOSTNAME_LABEL = "kubernetes.io/hostname"
LABEL_PREFIX = "topology.trainyard.dev/"
RAIL_PREFIX = "rail.trainyard.dev/"
SHAPE_LABEL = "trainyard.dev/node-shape"


def domain_label(tier_name: str) -> str:
    """Return the key of the node label with the node's domain of a tier."""
    return f"{LABEL_PREFIX}{tier_name}"


def rail_label(rail: int) -> str:
    """Return the key of the node label with the leaf switch of a rail."""
    return f"{RAIL_PREFIX}{rail}"


def node_names(domain: str, nodes: int | tuple[str, ...] | NodeSelector | None) -> tuple[str, ...]:
    """Return the node names of a lowest-level domain: explicit ones, or ``<domain>-node-<n>``.

    Nodes that are chosen by label have generated names only where they are simulated.
    """
    if isinstance(nodes, NodeSelector):
        nodes = nodes.count
    if isinstance(nodes, int):
        return tuple(f"{domain}-node-{number}" for number in range(nodes))
    return nodes or ()
