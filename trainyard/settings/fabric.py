"""The network fabric: switches, racks and nodes as a tree of domains."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from fractions import Fraction
from typing import Annotated

from pydantic import Discriminator, Field, Tag

from trainyard import quantity
from trainyard.settings.base import (
    DnsLabel,
    DnsSubdomain,
    LabelKey,
    LabelValue,
    ResourceName,
    Resources,
    SettingsModel,
)

__all__ = ["Domain", "FabricSettings", "NodeShape"]


def _count_or_names(value: object) -> str | None:
    if isinstance(value, int) and not isinstance(value, bool):
        return "count"
    return "names" if isinstance(value, list | tuple) else None


Nodes = Annotated[
    Annotated[int, Tag("count")] | Annotated[tuple[DnsSubdomain, ...], Tag("names")],
    Discriminator(
        _count_or_names,
        custom_error_type="nodes",
        custom_error_message="must be a number of nodes or a list of their names",
    ),
]
"""Nodes of a domain: how many, or which."""


class NodeShape(SettingsModel):
    """What one accelerator node offers."""

    capacity: Resources = Field(
        default={"cpu": "96", "memory": "1Ti", "nvidia.com/gpu": "8", "pods": "110"},
        description="Capacity of a node by resource; simulated nodes get exactly this",
    )
    labels: dict[LabelKey, LabelValue] = Field(default={}, description="Labels that every node of the shape carries")


class Domain(SettingsModel):
    """One network domain: a rack with its nodes, or a switch level with the domains below it."""

    name: DnsLabel = Field(description="Name of the domain; becomes the HyperNode's name")
    nodes: Nodes | None = Field(
        default=None,
        description="Nodes of a lowest-level domain: a number (names are `<domain>-node-<n>`) or a list of names",
    )
    domains: tuple[Domain, ...] | None = Field(default=None, description="Domains one level below, instead of nodes")
    copies: int | None = Field(
        default=None,
        ge=1,
        description="How many of it there are, called `<name>-0`, `<name>-1`, …; the names of what is below a copy "
        "start with the copy's. Without it there is one, called `name`",
    )
    shape: DnsLabel | None = Field(
        default=None,
        description="Shape of the nodes below, by its name under shapes; the nearest one counts, nodeShape where "
        "there is none",
    )
    shape_by_node: dict[DnsSubdomain, DnsLabel] = Field(
        default={}, description="Shapes of single nodes of this domain where they differ, by node name"
    )
    rails: tuple[LabelValue, ...] = Field(
        default=(),
        description="Leaf switch of each network rail of the nodes below, rail 0 first; each becomes a node label "
        "`rail.trainyard.dev/<n>`",
    )


class FabricSettings(SettingsModel):
    """The fabric that topology-aware gangs are placed in."""

    tier_names: tuple[DnsLabel, ...] = Field(
        default=("rack", "spine"), description="Names of the tiers from the lowest (tier 1) upward"
    )
    node_shape: NodeShape = Field(
        default=NodeShape(), description="What an accelerator node offers where its domain names no shape"
    )
    shapes: dict[DnsLabel, NodeShape] = Field(
        default={}, description="Further node shapes by name, for domains with other accelerators"
    )
    accelerator_resources: tuple[ResourceName, ...] = Field(
        default=(), description="Resources that count as accelerators beside the devices of the node shapes"
    )
    domains: tuple[Domain, ...] = Field(
        default=(), description="Top-level domains; empty when there is no fabric to declare"
    )

    @property
    def node_count(self) -> int:
        """Number of accelerator nodes."""
        return sum(self.node_counts.values())

    @property
    def node_counts(self) -> Mapping[str, int]:
        """Number of accelerator nodes by the name of their shape, empty for `node_shape`; only shapes in use."""
        found: Counter[str] = Counter()
        for domain in self.domains:
            _count(domain, "", 1, found)
        return {name: count for name, count in sorted(found.items()) if count > 0}

    @property
    def capacity(self) -> dict[str, str]:
        """What all nodes offer together, by resource in Kubernetes quantities; empty without nodes."""
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
        """Return a shape by its name; `node_shape` for the empty name and for one that is not declared."""
        return self.shapes.get(name, self.node_shape)


def _count(domain: Domain, above: str, times: int, found: Counter[str]) -> None:
    shape, times = domain.shape or above, times * (domain.copies or 1)
    own = max(domain.nodes, 0) if isinstance(domain.nodes, int) else len(domain.nodes or ())
    found[shape] += own * times
    if domain.shape_by_node:
        named = set(domain.nodes) if isinstance(domain.nodes, tuple) else None
        for node, other in domain.shape_by_node.items():
            if named is None or node in named:
                found[shape] -= times
                found[other] += times
    for child in domain.domains or ():
        _count(child, shape, times, found)
