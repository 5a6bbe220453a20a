"""Tiers of domains from links between switches and host adapters, with several rails per node."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from statistics import median
from typing import NamedTuple

from trainyard.checks.report.text import listed
from trainyard.scheduling.topology.inventory import InventoryNode, dns_label, natural

_SHOWN = 5


class Adapter(NamedTuple):
    """One host adapter.

    Parameters
    ----------
    node
        Name of its node.
    name
        Its own name, such as ``mlx5_0``; empty if unknown.
    """

    node: str
    name: str


@dataclass
class Wiring:
    """Links between switches and host adapters.

    Parameters
    ----------
    switches
        Adjacent switches of each switch.
    hosts
        Adapters of each node, each with its switch.
    """

    switches: dict[str, set[str]]
    hosts: dict[str, set[tuple[str, str]]] = field(default_factory=dict)


@dataclass(frozen=True)
class RailPlacement:
    """Domains of the nodes.

    Parameters
    ----------
    nodes
        The nodes with their domains.
    rails
        Whether any node has adapters on several leaf switches.
    """

    nodes: tuple[InventoryNode, ...]
    rails: bool

    def __bool__(self) -> bool:
        return bool(self.nodes)


def levels_of(wiring: Wiring) -> tuple[dict[str, int], list[str]]:
    """Return the height of each switch that nodes can reach, 1 for a leaf switch, and notes on what was left out.

    A switch between leaf switches with only a few adapters (of a manager or of storage) is not a leaf switch; nodes
    whose adapters are all on such switches are removed from the wiring.
    """
    adapters = Counter(switch for links in wiring.hosts.values() for _, switch in links)
    leaves = set(adapters)
    for switch in sorted(adapters):
        near = [adapters[other] for other in wiring.switches[switch] if other in adapters]
        if len(near) >= 2 and adapters[switch] * 4 <= median(near):
            leaves.discard(switch)
    outside = []
    for node, links in sorted(wiring.hosts.items()):
        kept = {link for link in links if link[1] in leaves}
        if kept:
            wiring.hosts[node] = kept
        else:
            outside.append(node)
            del wiring.hosts[node]
    levels = dict.fromkeys(leaves, 1)
    level, reached = 1, leaves
    while reached:
        level += 1
        reached = {other for switch in reached for other in wiring.switches[switch] if other not in levels}
        levels |= dict.fromkeys(reached, level)
    notes = []
    if outside:
        notes.append(f"left out, on switches between leaf switches: {listed(outside, _SHOWN)}")
    crossing = sum(1 for leaf in leaves for other in wiring.switches[leaf] if other in leaves)
    if crossing:
        notes.append(f"{crossing // 2} links between leaf switches are ignored")
    return levels, notes


def place(wiring: Wiring, levels: Mapping[str, int]) -> tuple[RailPlacement, list[str], int]:
    """Return the domains of the nodes, notes, and the number of tiers.

    Parameters
    ----------
    wiring
        The links.
    levels
        Height of each switch.
    """
    leaves_of = {node: frozenset(switch for _, switch in links) for node, links in wiring.hosts.items()}
    groups = _groups(set(leaves_of.values()))
    names = _group_names(groups.values())
    home = {node: names[groups[leaves]] for node, leaves in leaves_of.items()}
    several = any(len(leaves) > 1 for leaves in leaves_of.values())
    tiers = [home]
    notes = _notes(leaves_of, groups, names) if several else []
    top = max(levels.values(), default=1)
    domains = {names[group]: group for group in groups.values()}
    for level in range(2, top + 1):
        above = _joined(domains, wiring, levels, level)
        below = set(tiers[-1].values())
        tier = {node: above[home[node]] for node in home}
        if len(set(tier.values())) < len(below):
            tiers.append(tier)
        elif len(below) > 1:
            notes.append(f"switch level {level} has the same domains as the level below and is not a tier")
    rails = {node: _rails(wiring.hosts[node]) for node in home} if several else {}
    nodes = tuple(
        InventoryNode(node, tuple(tier[node] for tier in tiers), f"node {node}", "", rails.get(node, ()))
        for node in sorted(home)
    )
    variants: dict[str, set[tuple[str, ...]]] = {}
    for node, leaves in rails.items():
        variants.setdefault(home[node], set()).add(leaves)
    mixed = sorted(name for name, found in variants.items() if len(found) > 1)
    if mixed:
        notes.append(f"rails are unset in {listed(mixed, _SHOWN)}, whose nodes are cabled differently")
    return RailPlacement(nodes, several), notes, len(tiers)


def _groups(sets: set[frozenset[str]]) -> dict[frozenset[str], frozenset[str]]:
    """Return the largest set that contains each set of leaf switches: a node may lack a link."""
    by_leaf: dict[str, list[frozenset[str]]] = {}
    for each in sorted(sets, key=lambda leaves: (-len(leaves), sorted(leaves))):
        for leaf in each:
            by_leaf.setdefault(leaf, []).append(each)
    return {each: next(other for other in by_leaf[min(each)] if each <= other) for each in sets}


def _group_names(groups: Iterable[frozenset[str]]) -> dict[frozenset[str], str]:
    """Name each group after its first leaf switch that is in no other group."""
    distinct = sorted(set(groups), key=lambda group: sorted(map(natural, group)))
    count = Counter(leaf for group in distinct for leaf in group)
    names = {}
    for group in distinct:
        own = sorted((leaf for leaf in group if count[leaf] == 1), key=natural)
        leaves = sorted(group, key=natural)
        stem = own[0] if own else "-".join(leaves)
        names[group] = stem if len(group) == 1 else dns_label(f"rails-{stem}")
    return names


def _joined(
    domains: Mapping[str, frozenset[str]], wiring: Wiring, levels: Mapping[str, int], level: int
) -> dict[str, str]:
    """Return the larger domain to which switches up to a level join each domain of leaf switches."""
    parent = {switch: switch for switch, height in levels.items() if height <= level}

    def root(switch: str) -> str:
        while parent[switch] != switch:
            parent[switch] = parent[parent[switch]]
            switch = parent[switch]
        return switch

    for switch in parent:
        for other in wiring.switches[switch]:
            if other in parent and levels[other] != levels[switch]:
                parent[root(switch)] = root(other)
    for leaves in domains.values():
        first, *rest = sorted(leaves)
        for leaf in rest:
            parent[root(first)] = root(leaf)
    tops: dict[str, list[str]] = {}
    for switch in parent:
        if levels[switch] == level:
            tops.setdefault(root(switch), []).append(switch)
    named = {}
    for name, leaves in domains.items():
        joined = root(min(leaves))
        heads = sorted(tops.get(joined, []), key=natural)
        named[name] = f"above-{name}" if not heads else heads[0] if len(heads) == 1 else dns_label(f"group-{heads[0]}")
    return named


def _rails(links: set[tuple[str, str]]) -> tuple[str, ...]:
    return tuple(switch for _, switch in sorted(links, key=lambda link: (natural(link[0]), link[1])))


def _notes(
    leaves_of: Mapping[str, frozenset[str]],
    groups: Mapping[frozenset[str], frozenset[str]],
    names: Mapping[frozenset[str], str],
) -> list[str]:
    widths = Counter(len(group) for group in groups.values())
    notes = [
        f"nodes have adapters on several leaf switches (up to {max(widths)}): nodes that share those switches form "
        f"one domain, {len(set(groups.values()))} in all"
    ]
    fewer = sorted(node for node, leaves in leaves_of.items() if groups[leaves] != leaves)
    if fewer:
        notes.append(f"nodes with fewer links than others of their domain: {listed(fewer, _SHOWN)}")
    count = Counter(leaf for group in names for leaf in group)
    shared = sorted(leaf for leaf, number in count.items() if number > 1)
    if shared:
        notes.append(f"leaf switches that several domains share: {listed(shared, _SHOWN)}")
    return notes
