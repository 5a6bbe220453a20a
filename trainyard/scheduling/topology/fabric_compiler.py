"""Compile the settings of a fabric to HyperNodes and labeled nodes.

A domain of the lowest level becomes a HyperNode of tier 1, the level above becomes tier 2 and so on: Volcano walks from
a HyperNode to its ancestors by rising tier, so a tier is the height of a domain above its nodes. Member HyperNodes are
always matched by exact name, because the scheduler ignores their other selectors. Nodes are matched by exact name or by
label, never by regular expression, which is not anchored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from trainyard.errors import TrainyardError
from trainyard.scheduling.topology.fabric_checks import check_fabric
from trainyard.scheduling.topology.fabric_names import HOSTNAME_LABEL, SHAPE_LABEL, domain_label, rail_label
from trainyard.scheduling.topology.layout import PlacedNode, walk_fabric
from trainyard.settings.fabric import FabricSettings

HYPER_NODE_API = "topology.volcano.sh/v1alpha1"


@dataclass(frozen=True, slots=True)
class FabricNode:
    """One accelerator node.

    Parameters
    ----------
    name
        Name of the Kubernetes node.
    capacity
        Capacity by resource name, in Kubernetes quantities.
    labels
        Labels of the node: its host name, those of its shape, one per tier and one per rail.
    path
        Names of its domains, lowest tier first; the first one is its rack.
    shape
        Name of its shape; empty: the fabric's own.
    selected
        Whether its domain chooses nodes by label: then its name is that of a simulated node only.
    """

    name: str
    capacity: Mapping[str, str]
    labels: Mapping[str, str]
    path: tuple[str, ...]
    shape: str = ""
    selected: bool = False


@dataclass(frozen=True, slots=True)
class FabricDomain:
    """One network domain.

    Parameters
    ----------
    name
        Name of the domain and of its HyperNode.
    tier
        Height above the nodes, 1 for a domain of nodes.
    tier_name
        Name of the tier.
    parent
        Parent domain; None at the top.
    members
        Names of its nodes (tier 1; simulated ones where it has a selector) or child domains.
    node_count
        Number of nodes in the domain and below.
    selector
        Labels that choose its nodes; empty if its members are listed by name.
    """

    name: str
    tier: int
    tier_name: str
    parent: str | None
    members: tuple[str, ...]
    node_count: int
    selector: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Fabric:
    """A checked fabric.

    Parameters
    ----------
    levels
        Names of the tiers, lowest first.
    domains
        Every domain, lowest tier first, in the order of the settings within a tier.
    nodes
        Every node, in the order of the settings.
    shapes
        Capacity of a node by the name of its shape; used shapes only.
    """

    levels: tuple[str, ...]
    domains: tuple[FabricDomain, ...]
    nodes: tuple[FabricNode, ...]
    shapes: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @property
    def hyper_nodes(self) -> list[dict[str, Any]]:
        """HyperNode manifests, lowest tier first: the order of creation."""
        return [hyper_node(domain) for domain in self.domains]

    @property
    def order(self) -> dict[str, tuple[str, ...]]:
        """HyperNodes that must exist before each HyperNode, by name.

        The same edges order deletion: deleting a member that its parent still lists stops the scheduler of Volcano
        1.14.1.
        """
        return {domain.name: () if domain.tier == 1 else domain.members for domain in self.domains}

    @property
    def tiers(self) -> tuple[tuple[str, int], ...]:
        """Name and number of each tier, lowest first."""
        return tuple((name, number) for number, name in enumerate(self.levels, start=1))


def compile_fabric(settings: FabricSettings) -> Fabric:
    """Compile a fabric.

    Parameters
    ----------
    settings
        The fabric of a stack.

    Returns
    -------
    Fabric
        Deterministic; the names of a domain and its nodes do not depend on other domains.

    Raises
    ------
    TrainyardError
        The fabric is invalid; every error is listed with its path.
    """
    findings = check_fabric(settings)
    if findings:
        raise TrainyardError("The fabric is invalid", findings=findings)
    if not settings.domains:
        return Fabric((), (), ())
    placed = list(walk_fabric(settings, ""))
    nodes = tuple(node for each in placed if each.domain.domains is None for node in _nodes(each, settings))
    shapes = {name: settings.shape(name).capacity for name in settings.node_counts}
    return Fabric(settings.tier_names, _domains(placed, settings.tier_names), nodes, shapes)


def _domains(placed: list[PlacedNode], levels: tuple[str, ...]) -> tuple[FabricDomain, ...]:
    below: dict[str, list[str]] = {each.name: [] for each in placed}
    counts = dict.fromkeys(below, 0)
    for each in placed:
        if each.above:
            below[each.above[0]].append(each.name)
        if each.domain.domains is None:
            own = each.nodes
            below[each.name].extend(own)
            for name in (each.name, *each.above):
                counts[name] += len(own)
    top = len(levels)
    domains = [
        FabricDomain(
            each.name,
            top - len(each.above),
            levels[top - len(each.above) - 1],
            each.above[0] if each.above else None,
            tuple(below[each.name]),
            counts[each.name],
            each.selector.match_labels if each.selector else {},
        )
        for each in placed
    ]
    return tuple(sorted(domains, key=lambda domain: domain.tier))


def _nodes(rack: PlacedNode, settings: FabricSettings) -> Iterator[FabricNode]:
    path, exceptions = (rack.name, *rack.above), rack.domain.shape_by_node
    shared = {domain_label(tier): domain for tier, domain in zip(settings.tier_names, path, strict=True)}
    shared |= {rail_label(number): leaf for number, leaf in enumerate(rack.rails)}
    if rack.selector:
        shared |= rack.selector.match_labels
    selected = rack.selector is not None
    capacity, labels = _shaped(rack.shape, shared, settings)
    for name in rack.nodes:
        own = {**labels, HOSTNAME_LABEL: name}
        if name in exceptions:
            shape = exceptions[name]
            other, marks = _shaped(shape, shared, settings)
            yield FabricNode(name, other, {**marks, HOSTNAME_LABEL: name}, path, shape)
        else:
            yield FabricNode(name, capacity, own, path, rack.shape, selected)


def _shaped(
    name: str, shared: Mapping[str, str], settings: FabricSettings
) -> tuple[Mapping[str, str], Mapping[str, str]]:
    shape = settings.shape(name)
    return dict(shape.capacity), {**shape.labels, **({SHAPE_LABEL: name} if name else {}), **shared}


def hyper_node(domain: FabricDomain) -> dict[str, Any]:
    """Return the HyperNode of a domain."""
    kind = "Node" if domain.tier == 1 else "HyperNode"
    members = [{"type": kind, "selector": {"exactMatch": {"name": name}}} for name in domain.members]
    if domain.selector:
        members = [{"type": "Node", "selector": {"labelMatch": {"matchLabels": dict(domain.selector)}}}]
    return {
        "apiVersion": HYPER_NODE_API,
        "kind": "HyperNode",
        "metadata": {"name": domain.name},
        "spec": {
            "tier": domain.tier,
            "tierName": domain.tier_name,
            "members": members,
        },
    }
