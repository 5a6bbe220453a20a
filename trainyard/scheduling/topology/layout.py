"""Domains of a fabric, copies expanded: input of the checks and the compiler."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from trainyard.scheduling.topology.fabric_names import node_names
from trainyard.settings.fabric import Domain, FabricSettings, NodeSelector

MAX_NODES = 200_000
"""Maximum number of nodes; Kubernetes is tested to 5,000, the largest known clusters have about 130,000."""

MAX_DOMAINS = 50_000
"""Maximum number of domains; each is one HyperNode."""


@dataclass(frozen=True, slots=True)
class PlacedNode:
    """One domain at its position in the fabric.

    Parameters
    ----------
    name
        Its name; for a copy, that of the copy.
    domain
        Its settings.
    where
        Path of its settings.
    above
        Names of its ancestors, the nearest first.
    shape
        Shape of its nodes; empty: the fabric's own.
    rails
        Leaf switch of each rail of its nodes.
    """

    name: str
    domain: Domain
    where: str
    above: tuple[str, ...]
    shape: str
    rails: tuple[str, ...]

    @property
    def depth(self) -> int:
        """Levels from the top, 1 for a top-level domain."""
        return len(self.above) + 1

    @property
    def nodes(self) -> tuple[str, ...]:
        """Names of its own nodes."""
        return node_names(self.name, self.domain.nodes)

    @property
    def selector(self) -> NodeSelector | None:
        """Selector of its own nodes; None if they are not chosen by label."""
        return self.domain.nodes if isinstance(self.domain.nodes, NodeSelector) else None

    @property
    def is_copied(self) -> bool:
        """Whether it is a copy, or inside one."""
        return self.name != self.domain.name or self.domain.copies is not None


def walk_fabric(settings: FabricSettings, path: str) -> Iterator[PlacedNode]:
    """Yield every domain, parents before children, in settings order.

    Parameters
    ----------
    settings
        The fabric; check its size first with `domain_count`, as copies are expanded.
    path
        Path of the settings, the prefix of each domain's path.
    """
    pending = list(_below(settings.domains, path, "", (), "", ()))[::-1]
    while pending:
        placed = pending.pop()
        yield placed
        domain = placed.domain
        if domain.domains:
            prefix = f"{placed.name}-" if placed.is_copied else ""
            above = (placed.name, *placed.above)
            below = list(_below(domain.domains, placed.where, prefix, above, placed.shape, placed.rails))
            pending.extend(reversed(below))


def domain_count(settings: FabricSettings) -> int:
    """Return the number of domains that `walk_fabric` yields, without walking."""

    def count(domain: Domain) -> int:
        return (domain.copies or 1) * (1 + sum(count(child) for child in domain.domains or ()))

    return sum(count(domain) for domain in settings.domains)


def _below(
    domains: tuple[Domain, ...], path: str, prefix: str, above: tuple[str, ...], shape: str, rails: tuple[str, ...]
) -> Iterator[PlacedNode]:
    for index, domain in enumerate(domains):
        where, name = f"{path}.domains[{index}]", f"{prefix}{domain.name}"
        names = [name] if domain.copies is None else [f"{name}-{number}" for number in range(domain.copies)]
        for each in names:
            yield PlacedNode(each, domain, where, above, domain.shape or shape, domain.rails or rails)
