"""The network fabric: switches, racks and nodes as a tree of domains."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from fractions import Fraction
from typing import Annotated

from pydantic import Discriminator, Field, Tag

from trainyard import quantity
from trainyard.settings.settings_model import (
    DnsLabel,
    DnsSubdomain,
    LabelKey,
    LabelValue,
    NodeNumber,
    ResourceName,
    Resources,
    SettingsModel,
)


class NodeSelector(SettingsModel):
    """Nodes of a domain that are chosen by label."""

    match_labels: dict[LabelKey, LabelValue] = Field(
        description="Labels of the domain's nodes; a node with all of them is a member"
    )
    count: int = Field(
        ge=1,
        description="Number of nodes that the domain has when none is missing; the queue tree's capacity counts these",
    )


def _kind_of_nodes(value: object) -> str | None:
    if isinstance(value, int) and not isinstance(value, bool):
        return "count"
    if isinstance(value, Mapping | NodeSelector):
        return "selector"
    return "names" if isinstance(value, list | tuple) else None


Nodes = Annotated[
    Annotated[int, Tag("count")]
    | Annotated[tuple[DnsSubdomain, ...], Tag("names")]
    | Annotated[NodeSelector, Tag("selector")],
    Discriminator(
        _kind_of_nodes,
        custom_error_type="nodes",
        custom_error_message="must be a number of nodes, a list of their names, or matchLabels and count",
    ),
]
"""Nodes of a domain: their number, names or labels."""


class NodeShape(SettingsModel):
    """Capacity and labels of an accelerator node."""

    capacity: Resources = Field(
        default={"cpu": "96", "memory": "1Ti", "nvidia.com/gpu": "8", "pods": "110"},
        description="Capacity of a node by resource; simulated nodes have exactly this capacity",
    )
    labels: dict[LabelKey, LabelValue] = Field(default={}, description="Labels of every node of the shape")


class Domain(SettingsModel):
    """Network domain: a rack with its nodes, or a switch level with its subdomains."""

    name: DnsLabel = Field(description="Name of the domain and its HyperNode")
    nodes: Nodes | None = Field(
        default=None,
        description="Nodes of a lowest-level domain: a number (named `<domain>-node-<n>`), a list of names, or labels",
    )
    domains: tuple[Domain, ...] | None = Field(default=None, description="Domains one level below, instead of nodes")
    copies: int | None = Field(
        default=None,
        ge=1,
        description="Number of copies, named `<name>-0`, `<name>-1`, …; names below a copy are prefixed with its name. "
        "Default: one domain, named `name`",
    )
    shape: DnsLabel | None = Field(
        default=None,
        description="Shape of the nodes below, a name under shapes; the nearest domain takes precedence; default: "
        "nodeShape",
    )
    shape_by_node: dict[DnsSubdomain, DnsLabel] = Field(
        default={}, description="Shapes of individual nodes of this domain, by node name"
    )
    rails: tuple[LabelValue, ...] = Field(
        default=(),
        description="Leaf switch of each network rail of the nodes below, rail 0 first; each is written to the label "
        "`rail.trainyard.dev/<n>`",
    )


class FabricSettings(SettingsModel):
    """Network fabric for topology-aware placement of gangs."""

    tier_names: tuple[DnsLabel, ...] = Field(
        default=("rack", "spine"), description="Names of the tiers from the lowest (tier 1) upward"
    )
    node_shape: NodeShape = Field(
        default=NodeShape(), description="Shape of accelerator nodes whose domain has no shape"
    )
    shapes: dict[DnsLabel, NodeShape] = Field(
        default={}, description="Additional node shapes by name, for domains with other accelerators"
    )
    accelerator_resources: tuple[ResourceName, ...] = Field(
        default=(), description="Accelerator resources in addition to the devices of the node shapes"
    )
    domains: tuple[Domain, ...] = Field(default=(), description="Top-level domains; empty: no fabric")
    max_missing_nodes: NodeNumber = Field(
        default="10%",
        description="Nodes that may be missing in the cluster, such as nodes under repair: a number, or a percentage "
        "rounded up, which never allows all to be missing. Missing nodes are warnings; beyond it, preview and up fail",
    )

    @property
    def node_count(self) -> int:
        """Number of accelerator nodes."""
        return sum(self.node_counts.values())

    @property
    def missing_limit(self) -> int:
        """Number of nodes that may be missing."""
        text = self.max_missing_nodes
        if not text.endswith("%"):
            return int(text)
        return max(min(math.ceil(self.node_count * int(text[:-1]) / 100), self.node_count - 1), 0)

    @property
    def node_counts(self) -> Mapping[str, int]:
        """Number of accelerator nodes by shape name, with an empty name for `node_shape`; only shapes in use."""
        found: Counter[str] = Counter()
        for domain in self.domains:
            _count(domain, "", 1, found)
        return {name: count for name, count in sorted(found.items()) if count > 0}

    @property
    def capacity(self) -> dict[str, str]:
        """Total capacity of all nodes by resource, as Kubernetes quantities; empty without nodes."""
        total: dict[str, Fraction] = {}
        for shape, count in self.node_counts.items():
            for resource, amount in self.shape(shape).capacity.items():
                total[resource] = total.get(resource, Fraction(0)) + quantity.parse(amount) * count
        return {resource: quantity.format(amount, resource) for resource, amount in sorted(total.items())}

    @property
    def devices(self) -> tuple[str, ...]:
        """Devices of every node shape, such as ``nvidia.com/gpu``, sorted."""
        shapes = (self.node_shape, *self.shapes.values())
        return tuple(sorted({name for shape in shapes for name in shape.capacity if "/" in name}))

    def shape(self, name: str) -> NodeShape:
        """Return a shape by name; `node_shape` for an empty or undeclared name."""
        return self.shapes.get(name, self.node_shape)


def _number(nodes: int | tuple[str, ...] | NodeSelector | None) -> int:
    if isinstance(nodes, NodeSelector):
        return nodes.count
    return max(nodes, 0) if isinstance(nodes, int) else len(nodes or ())


def _count(domain: Domain, above: str, times: int, found: Counter[str]) -> None:
    shape, times = domain.shape or above, times * (domain.copies or 1)
    found[shape] += _number(domain.nodes) * times
    if domain.shape_by_node:
        named = set(domain.nodes) if isinstance(domain.nodes, tuple) else None
        for node, other in domain.shape_by_node.items():
            if named is None or node in named:
                found[shape] -= times
                found[other] += times
    for child in domain.domains or ():
        _count(child, shape, times, found)
