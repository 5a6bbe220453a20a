"""Limits of the fabric on one gang: the pods that must be inside one domain."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from trainyard.api.constants import TOPOLOGY_FEATURE
from trainyard.explain.body_fields import Body, mapping, sequence, text, whole
from trainyard.explain.node_table import Demand, NodeFacts, placed
from trainyard.explain.observed import Kind
from trainyard.explain.situation import Situation

__all__ = ["fabric_limits", "fits_fabric"]


def fabric_limits(situation: Situation) -> Iterator[tuple[list[Demand], Body]]:
    """Yield the pods that must be in one domain, with the limit: the whole gang, and one of each kind of subgroup."""
    group, features = situation.pod_group, situation.index.features
    spec = mapping(group, "spec")
    if features and TOPOLOGY_FEATURE not in features:
        return
    if not situation.index.knows(Kind.HYPER_NODE):
        return
    topology = mapping(spec, "networkTopology")
    if text(topology, "mode") == "hard":
        yield situation.demands, topology
    for policy in sequence(spec, "subGroupPolicy"):
        own = mapping(policy, "networkTopology")
        if text(own, "mode") == "hard" and situation.demands:
            first = situation.demands[0]
            size = min(max(1, whole(policy, "subGroupSize", default=1)), situation.members)
            yield [replace(first, count=size)], own


def fits_fabric(situation: Situation, nodes: Sequence[NodeFacts]) -> bool:
    """Return whether the gang finds a place on the free resources of nodes, inside the domains that it may use."""
    if placed(situation.demands, nodes) < situation.members:
        return False
    by_name = {node.name: node for node in nodes}
    for demands, topology in fabric_limits(situation):
        domains = situation.view.table.allowed_domains(topology)
        pods = sum(each.count for each in demands)
        inside = ([by_name[name] for name in each.nodes if name in by_name] for each in domains or ())
        if domains is not None and not any(placed(demands, found) >= pods for found in inside):
            return False
    return True
