"""Groups of domains that differ only in name: drawings show one of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trainyard.scheduling.topology.fabric_compiler import Fabric, FabricDomain


@dataclass(frozen=True)
class DomainGroup:
    """Sibling domains of the same structure.

    Parameters
    ----------
    domains
        Members, in settings order.
    """

    domains: tuple[FabricDomain, ...]

    @property
    def first(self) -> FabricDomain:
        """The representative of the group."""
        return self.domains[0]

    @property
    def count(self) -> int:
        """Size of the group."""
        return len(self.domains)


class DomainGrouping:
    """Groups the domains of a fabric by structure: tiers, numbers of nodes and their shapes, not names.

    Parameters
    ----------
    fabric
        A compiled fabric.
    """

    def __init__(self, fabric: Fabric) -> None:
        self._by_name = {domain.name: domain for domain in fabric.domains}
        self._make: dict[str, int] = {}
        self.shapes: dict[str, dict[str, int]] = {}
        """Number of nodes by shape, for each domain."""
        by_node: dict[str, dict[str, int]] = {}
        for node in fabric.nodes:
            counts = by_node.setdefault(node.path[0], {})
            counts[node.shape] = counts.get(node.shape, 0) + 1
        known: dict[tuple[object, ...], int] = {}
        for domain in fabric.domains:
            if domain.tier == 1:
                self.shapes[domain.name] = by_node[domain.name]
                key: tuple[object, ...] = (1, *sorted(by_node[domain.name].items()))
            else:
                total = self.shapes[domain.name] = {}
                for member in domain.members:
                    for shape, count in self.shapes[member].items():
                        total[shape] = total.get(shape, 0) + count
                key = (domain.tier, *sorted(self._make[member] for member in domain.members))
            self._make[domain.name] = known.setdefault(key, len(known))

    def below(self, domain: FabricDomain) -> list[FabricDomain]:
        """Return the child domains."""
        return [self._by_name[member] for member in domain.members] if domain.tier > 1 else []

    def adjacent(self, domains: Sequence[FabricDomain]) -> list[DomainGroup]:
        """Group adjacent siblings of the same structure, in their order."""
        groups: list[list[FabricDomain]] = []
        for domain in domains:
            if groups and self._make[groups[-1][0].name] == self._make[domain.name]:
                groups[-1].append(domain)
            else:
                groups.append([domain])
        return [DomainGroup(tuple(group)) for group in groups]

    def all(self, domains: Sequence[FabricDomain]) -> list[DomainGroup]:
        """Group all siblings of the same structure, in the order of the first of each group."""
        groups: dict[int, list[FabricDomain]] = {}
        for domain in domains:
            groups.setdefault(self._make[domain.name], []).append(domain)
        return [DomainGroup(tuple(group)) for group in groups.values()]

    def single(self, domains: Sequence[FabricDomain]) -> list[DomainGroup]:
        """Return each domain as its own group."""
        return [DomainGroup((domain,)) for domain in domains]
