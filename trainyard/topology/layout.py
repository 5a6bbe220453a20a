"""Domains of a fabric, copies expanded: input of the checks and the compiler."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from trainyard.settings.fabric import Domain, FabricSettings
from trainyard.topology.fabric_names import node_names

__all__ = ["MAX_DOMAINS", "MAX_NODES", "Placed", "domain_count", "walk"]

MAX_NODES = 200_000
"""Nodes of a fabric; Kubernetes itself is tested to 5,000, the largest clusters known have about 130,000."""

MAX_DOMAINS = 50_000
"""Domains of a fabric; each is one HyperNode."""


@dataclass(frozen=True, slots=True)
class Placed:
    """One domain where it is in the fabric.

    Parameters
    ----------
    name
        Its name; that of the copy for one of several copies.
    domain
        Its settings.
    where
        Path of the settings.
    above
        Names of the domains it is in, the nearest first.
    shape
        Name of its nodes' shape, empty for the fabric's own.
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


def walk(settings: FabricSettings, path: str) -> Iterator[Placed]:
    """Yield every domain, each before those below it, in the order of the settings.

    Parameters
    ----------
    settings
        The fabric; `domain_count` and its number of nodes tell whether writing it out is sensible.
    path
        Where the settings are, the start of each domain's path.
    """
    pending = list(_below(settings.domains, path, "", (), "", ()))[::-1]
    while pending:
        placed = pending.pop()
        yield placed
        domain = placed.domain
        if domain.domains:
            prefix = f"{placed.name}-" if _is_copied(placed) else ""
            above = (placed.name, *placed.above)
            below = list(_below(domain.domains, placed.where, prefix, above, placed.shape, placed.rails))
            pending.extend(reversed(below))


def domain_count(settings: FabricSettings) -> int:
    """Return how many domains `walk` yields, without walking."""

    def count(domain: Domain) -> int:
        return (domain.copies or 1) * (1 + sum(count(child) for child in domain.domains or ()))

    return sum(count(domain) for domain in settings.domains)


def _is_copied(placed: Placed) -> bool:
    return placed.name != placed.domain.name or placed.domain.copies is not None


def _below(
    domains: tuple[Domain, ...], path: str, prefix: str, above: tuple[str, ...], shape: str, rails: tuple[str, ...]
) -> Iterator[Placed]:
    for index, domain in enumerate(domains):
        where, name = f"{path}.domains[{index}]", f"{prefix}{domain.name}"
        names = [name] if domain.copies is None else [f"{name}-{number}" for number in range(domain.copies)]
        for each in names:
            yield Placed(each, domain, where, above, domain.shape or shape, domain.rails or rails)
