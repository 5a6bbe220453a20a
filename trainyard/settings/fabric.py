"""The network fabric: switches, racks and nodes as a tree of domains."""

from __future__ import annotations

from typing import Annotated

from pydantic import Discriminator, Field, Tag

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
    labels: dict[LabelKey, LabelValue] = Field(default={}, description="Labels that every accelerator node carries")


class Domain(SettingsModel):
    """One network domain: a rack with its nodes, or a switch level with the domains below it."""

    name: DnsLabel = Field(description="Name of the domain; becomes the HyperNode's name")
    nodes: Nodes | None = Field(
        default=None,
        description="Nodes of a lowest-level domain: a number (names are `<domain>-node-<n>`) or a list of names",
    )
    domains: tuple[Domain, ...] | None = Field(default=None, description="Domains one level below, instead of nodes")


class FabricSettings(SettingsModel):
    """The fabric that topology-aware gangs are placed in."""

    tier_names: tuple[DnsLabel, ...] = Field(
        default=("rack", "spine"), description="Names of the tiers from the lowest (tier 1) upward"
    )
    node_shape: NodeShape = Field(default=NodeShape(), description="What each accelerator node offers")
    accelerator_resources: tuple[ResourceName, ...] = Field(
        default=(), description="Resources that count as accelerators beside the devices of nodeShape"
    )
    domains: tuple[Domain, ...] = Field(
        default=(), description="Top-level domains; empty when there is no fabric to declare"
    )

    @property
    def node_count(self) -> int:
        """Number of accelerator nodes."""
        return sum(_node_count(domain) for domain in self.domains)


def _node_count(domain: Domain) -> int:
    own = domain.nodes if isinstance(domain.nodes, int) else len(domain.nodes or ())
    return own + sum(_node_count(child) for child in domain.domains or ())
