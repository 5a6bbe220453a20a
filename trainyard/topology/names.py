"""Names in a fabric: of nodes that settings only count, and of the labels that say where a node is."""

from __future__ import annotations

from trainyard.settings.fabric import Domain

__all__ = ["HOSTNAME_LABEL", "LABEL_PREFIX", "domain_label", "node_names"]

HOSTNAME_LABEL = "kubernetes.io/hostname"
LABEL_PREFIX = "topology.trainyard.dev/"


def domain_label(tier_name: str) -> str:
    """Return the key of the node label that holds the node's domain of a tier."""
    return f"{LABEL_PREFIX}{tier_name}"


def node_names(domain: Domain) -> tuple[str, ...]:
    """Return the names of a lowest-level domain's nodes: those given, or ``<domain>-node-<n>``."""
    if isinstance(domain.nodes, int):
        return tuple(f"{domain.name}-node-{number}" for number in range(domain.nodes))
    return domain.nodes or ()
