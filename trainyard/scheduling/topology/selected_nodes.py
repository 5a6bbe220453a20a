"""Nodes of a cluster that the domains of a fabric choose by label."""

from __future__ import annotations

from collections.abc import Mapping

from trainyard.checks.finding import Finding
from trainyard.scheduling.topology.fabric_compiler import Fabric

Labels = Mapping[str, Mapping[str, str]]


def selected_nodes(fabric: Fabric, labels: Labels) -> dict[str, tuple[str, ...]]:
    """Return the nodes of each domain that chooses its nodes by label, sorted.

    Parameters
    ----------
    fabric
        The fabric.
    labels
        Labels of the cluster's nodes, by name.
    """
    by_label: dict[tuple[str, str], set[str]] = {}
    wanted = {pair for domain in fabric.domains for pair in domain.selector.items()}
    for name, own in labels.items():
        for pair in own.items():
            if pair in wanted:
                by_label.setdefault(pair, set()).add(name)
    return {
        domain.name: tuple(sorted(set.intersection(*(by_label.get(pair, set()) for pair in domain.selector.items()))))
        for domain in fabric.domains
        if domain.selector
    }


def shared_nodes(fabric: Fabric, labels: Labels) -> list[Finding]:
    """Find nodes of the cluster that are in two domains because of their labels."""
    first = {node.name: node.path[0] for node in fabric.nodes if not node.selected}
    findings = []
    for domain, names in selected_nodes(fabric, labels).items():
        for name in names:
            other = first.setdefault(name, domain)
            if other != domain:
                message = f"node {name} is in domain {domain} by its labels, and in domain {other}"
                fix = "correct the node's labels, or the selector"
                findings.append(Finding(f"trainyard:fabric.{domain}", message, fix))
    return findings
