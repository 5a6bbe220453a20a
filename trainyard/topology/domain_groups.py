"""Groups of domains that differ in name alone: a picture shows one of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trainyard.topology.fabric_compiler import Fabric, FabricDomain

__all__ = ["Alike", "Alikeness"]


@dataclass(frozen=True)
class Alike:
    """Sibling domains of the same make.

    Parameters
    ----------
    domains
        They, in the order of the settings.
    """

    domains: tuple[FabricDomain, ...]

    @property
    def first(self) -> FabricDomain:
        """The one to show for all."""
        return self.domains[0]

    @property
    def count(self) -> int:
        """How many they are."""
        return len(self.domains)


class Alikeness:
    """Compares the domains of a fabric by what they hold: tiers, numbers of nodes and their shapes, not names.

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
        """Return the domains one tier below."""
        return [self._by_name[member] for member in domain.members] if domain.tier > 1 else []

    def neighbours(self, domains: Sequence[FabricDomain]) -> list[Alike]:
        """Group siblings that are alike and next to each other, in their order."""
        groups: list[list[FabricDomain]] = []
        for domain in domains:
            if groups and self._make[groups[-1][0].name] == self._make[domain.name]:
                groups[-1].append(domain)
            else:
                groups.append([domain])
        return [Alike(tuple(group)) for group in groups]

    def all(self, domains: Sequence[FabricDomain]) -> list[Alike]:
        """Group all siblings that are alike, in the order of the first of each group."""
        groups: dict[int, list[FabricDomain]] = {}
        for domain in domains:
            groups.setdefault(self._make[domain.name], []).append(domain)
        return [Alike(tuple(group)) for group in groups.values()]

    def single(self, domains: Sequence[FabricDomain]) -> list[Alike]:
        """Return each domain as a group of its own."""
        return [Alike((domain,)) for domain in domains]
