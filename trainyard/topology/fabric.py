"""From the settings of a fabric to what a cluster needs: HyperNodes, and nodes with their labels.

A domain of the lowest level becomes a HyperNode of tier 1, the level above tier 2 and so on: Volcano walks from a
HyperNode to its ancestors by rising tier, so a tier is the height of a domain above its nodes. Members are always
matched by exact name: on members of type HyperNode the scheduler ignores the other selectors, and regular
expressions are not anchored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from trainyard.problem import TrainyardError
from trainyard.settings.fabric import Domain, FabricSettings
from trainyard.topology.checks import check_fabric
from trainyard.topology.names import HOSTNAME_LABEL, domain_label, node_names

__all__ = ["Fabric", "FabricDomain", "FabricNode", "compile_fabric"]


@dataclass(frozen=True)
class FabricNode:
    """One accelerator node.

    Parameters
    ----------
    name
        Name of the Kubernetes node.
    capacity
        Capacity by resource name, in Kubernetes quantities.
    labels
        Labels of the node: its host name, those of the node shape, and one for each tier.
    path
        Names of the domains it is in, lowest tier first; the first one is its rack.
    """

    name: str
    capacity: Mapping[str, str]
    labels: Mapping[str, str]
    path: tuple[str, ...]


@dataclass(frozen=True)
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
        Domain above, None at the top.
    members
        Names of the nodes (tier 1) or of the domains one tier below.
    node_count
        Nodes in the domain and below.
    """

    name: str
    tier: int
    tier_name: str
    parent: str | None
    members: tuple[str, ...]
    node_count: int


@dataclass(frozen=True)
class Fabric:
    """A proved fabric.

    Parameters
    ----------
    levels
        Names of the tiers, lowest first.
    domains
        Every domain, lowest tier first, in the order of the settings within a tier.
    nodes
        Every node, in the order of the settings.
    """

    levels: tuple[str, ...]
    domains: tuple[FabricDomain, ...]
    nodes: tuple[FabricNode, ...]

    @property
    def hyper_nodes(self) -> list[dict[str, Any]]:
        """HyperNode manifests, lowest tier first: the order to create them in."""
        return [_hyper_node(domain) for domain in self.domains]

    @property
    def order(self) -> dict[str, tuple[str, ...]]:
        """HyperNodes that must exist before each HyperNode, by name.

        The same edges order deletion: a member that its parent still lists must not go first, because that stops
        the scheduler of Volcano 1.14.1.
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
        The same for the same settings; the names of a domain and its nodes do not depend on other domains.

    Raises
    ------
    TrainyardError
        The fabric has faults; every one is listed with its path.
    """
    problems = check_fabric(settings)
    if problems:
        raise TrainyardError("The fabric has faults", problems=problems)
    if not settings.domains:
        return Fabric((), (), ())
    top = len(settings.tier_names)
    domains: list[FabricDomain] = []
    nodes: list[FabricNode] = []
    for domain in settings.domains:
        _compile(domain, top, (), settings, domains, nodes)
    return Fabric(settings.tier_names, tuple(sorted(domains, key=lambda domain: domain.tier)), tuple(nodes))


def _compile(
    domain: Domain,
    tier: int,
    above: tuple[str, ...],
    settings: FabricSettings,
    domains: list[FabricDomain],
    nodes: list[FabricNode],
) -> int:
    path = (domain.name, *above)
    if domain.domains is None:
        members = node_names(domain)
        nodes.extend(_nodes(members, path, settings))
        count = len(members)
    else:
        members = tuple(child.name for child in domain.domains)
        count = sum(_compile(child, tier - 1, path, settings, domains, nodes) for child in domain.domains)
    parent = above[0] if above else None
    domains.append(FabricDomain(domain.name, tier, settings.tier_names[tier - 1], parent, members, count))
    return count


def _nodes(names: tuple[str, ...], path: tuple[str, ...], settings: FabricSettings) -> Iterator[FabricNode]:
    capacity = dict(settings.node_shape.capacity)
    tiers = {domain_label(tier): domain for tier, domain in zip(settings.tier_names, path, strict=True)}
    shared = {**settings.node_shape.labels, **tiers}
    for name in names:
        yield FabricNode(name, capacity, {**shared, HOSTNAME_LABEL: name}, path)


def _hyper_node(domain: FabricDomain) -> dict[str, Any]:
    kind = "Node" if domain.tier == 1 else "HyperNode"
    return {
        "apiVersion": "topology.volcano.sh/v1alpha1",
        "kind": "HyperNode",
        "metadata": {"name": domain.name},
        "spec": {
            "tier": domain.tier,
            "tierName": domain.tier_name,
            "members": [{"type": kind, "selector": {"exactMatch": {"name": name}}} for name in domain.members],
        },
    }
