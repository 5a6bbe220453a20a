"""The faults of a fabric that Volcano accepts and then mishandles, found before anything is applied.

What each fault does to a running 1.14.1 scheduler decides that it is refused here: a HyperNode in two parents or in
a cycle stops every topology-aware gang, tiers that do not rise break hard limits silently, and a node in no domain
or in two is placed against what the gang asked for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from trainyard.problem import Problem
from trainyard.settings.fabric import Domain, FabricSettings
from trainyard.topology.names import HOSTNAME_LABEL, LABEL_PREFIX, node_names

__all__ = ["RULES", "check_fabric"]

RULES: dict[str, str] = {
    "fabric-domain-duplicate": "A domain's name is used once",
    "fabric-domain-empty": "A domain holds nodes",
    "fabric-domain-shape": "A domain has nodes, or domains below it",
    "fabric-mixed-depth": "Every node is the same number of levels below the top",
    "fabric-node-duplicate": "A node is in one domain of a tier",
    "fabric-node-label": "A node's labels do not contradict the fabric",
    "fabric-node-name": "A node's name fits its host name label",
    "fabric-tier-names": "Each tier has one name of its own",
}
"""What each rule asks for, by rule id."""

_NEITHER, _BOTH = "neither nodes nor domains", "both nodes and domains"
_LABEL_VALUE_LIMIT = 63


@dataclass(frozen=True)
class _Visit:
    domain: Domain
    path: str
    depth: int


def check_fabric(settings: FabricSettings, *, path: str = "trainyard:fabric") -> list[Problem]:
    """Find the faults of a fabric.

    Parameters
    ----------
    settings
        The fabric.
    path
        Where the settings are, the start of each problem's path.

    Returns
    -------
    list of Problem
        Empty for a fabric that can be compiled; in the order of the settings.
    """
    visits = list(_walk(settings, path))
    return [
        *_duplicate_domains(visits),
        *_empty_domains(visits),
        *_tiers(settings, visits, path),
        *_nodes(visits),
        *_labels(settings, path),
    ]


def _walk(settings: FabricSettings, path: str) -> Iterator[_Visit]:
    pending = [_Visit(domain, f"{path}.domains[{index}]", 1) for index, domain in enumerate(settings.domains)][::-1]
    while pending:
        visit = pending.pop()
        yield visit
        below = enumerate(visit.domain.domains or ())
        children = [_Visit(child, f"{visit.path}.domains[{index}]", visit.depth + 1) for index, child in below]
        pending.extend(reversed(children))


def _duplicate_domains(visits: list[_Visit]) -> Iterator[Problem]:
    first: dict[str, str] = {}
    for visit in visits:
        name = visit.domain.name
        if name in first:
            yield Problem(
                f"{visit.path}.name",
                f"domain {name!r} is declared twice, first at {first[name]}: one HyperNode would have two parents",
                "give the domain a name of its own",
                "fabric-domain-duplicate",
            )
        first.setdefault(name, visit.path)


def _empty_domains(visits: list[_Visit]) -> Iterator[Problem]:
    for visit in visits:
        domain = visit.domain
        if (domain.domains is None) == (domain.nodes is None):
            message = f"domain {domain.name!r} has {_NEITHER if domain.nodes is None else _BOTH}"
            yield Problem(visit.path, message, "give it nodes or domains, one of the two", "fabric-domain-shape")
        elif domain.domains is not None:
            if not domain.domains:
                message = f"domain {domain.name!r} has no domains below it"
                yield Problem(f"{visit.path}.domains", message, "add one or remove the domain", "fabric-domain-empty")
        elif isinstance(domain.nodes, int) and domain.nodes < 1:
            message = f"domain {domain.name!r} has {domain.nodes} nodes; a HyperNode needs at least one member"
            yield Problem(f"{visit.path}.nodes", message, "set 1 or more, or remove the domain", "fabric-domain-empty")
        elif not domain.nodes:
            message = f"domain {domain.name!r} has no nodes; a HyperNode needs at least one member"
            yield Problem(f"{visit.path}.nodes", message, "name a node or remove the domain", "fabric-domain-empty")


def _tiers(settings: FabricSettings, visits: list[_Visit], path: str) -> Iterator[Problem]:
    for name, count in Counter(settings.tier_names).items():
        if count > 1:
            message = f"tier name {name!r} is used {count} times; Volcano would take it for either tier by chance"
            yield Problem(f"{path}.tierNames", message, "give each tier a name of its own", "fabric-tier-names")
    leaves = [visit for visit in visits if visit.domain.domains is None]
    if not leaves:
        return
    depths = Counter(visit.depth for visit in leaves)
    usual = max(depths, key=lambda depth: (depths[depth], depth))
    for visit in leaves:
        if visit.depth != usual:
            yield Problem(
                visit.path,
                f"the nodes of domain {visit.domain.name!r} are {visit.depth} level(s) below the top, "
                f"those of other domains {usual}: a tier would mean different things in different places",
                f"put it {usual - 1} level(s) deep like the others",
                "fabric-mixed-depth",
            )
    if len(depths) == 1 and len(settings.tier_names) != usual:
        yield Problem(
            f"{path}.tierNames",
            f"{len(settings.tier_names)} tier name(s) for {usual} level(s): {', '.join(settings.tier_names)}",
            f"name {usual} tier(s), from the nodes upward",
            "fabric-tier-names",
        )


def _nodes(visits: list[_Visit]) -> Iterator[Problem]:
    first: dict[str, str] = {}
    for visit in visits:
        if visit.domain.domains is not None:
            continue
        for name in node_names(visit.domain):
            if name in first:
                yield Problem(
                    f"{visit.path}.nodes",
                    f"node {name!r} is in domain {visit.domain.name!r} and in domain {first[name]!r}",
                    "leave it in one of them",
                    "fabric-node-duplicate",
                )
            elif len(name) > _LABEL_VALUE_LIMIT:
                yield Problem(
                    f"{visit.path}.nodes",
                    f"node name {name!r} has {len(name)} characters; label {HOSTNAME_LABEL} holds {_LABEL_VALUE_LIMIT}",
                    "shorten the name of the domain or of the node",
                    "fabric-node-name",
                )
            first.setdefault(name, visit.domain.name)


def _labels(settings: FabricSettings, path: str) -> Iterator[Problem]:
    for key in settings.node_shape.labels:
        if key == HOSTNAME_LABEL or key.startswith(LABEL_PREFIX):
            yield Problem(
                f"{path}.nodeShape.labels[{key}]",
                f"label {key} is written for each node from the fabric",
                "remove it",
                "fabric-node-label",
            )
