"""Checks of domains whose nodes are chosen by label.

Two selectors match no common node if they require different values of one label. That is the only proof without the
nodes: a selector that includes all labels of another one surely overlaps, anything else depends on the cluster.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from trainyard.checks.finding import Finding
from trainyard.scheduling.topology.fabric_names import (
    HOSTNAME_LABEL,
    LABEL_PREFIX,
    RAIL_PREFIX,
    SHAPE_LABEL,
    domain_label,
    rail_label,
)
from trainyard.scheduling.topology.layout import PlacedNode
from trainyard.scheduling.topology.rules import RULES
from trainyard.settings.fabric import FabricSettings

_BUDGET = 2_000_000
"""Maximum number of pairs of domains to compare; the others are reported as unproved."""


def selector_findings(settings: FabricSettings, placed: Sequence[PlacedNode]) -> Iterator[Finding]:
    """Find errors of selectors, and selectors that may match a node of another domain.

    Parameters
    ----------
    settings
        The fabric.
    placed
        Its domains, each once.
    """
    leaves = [each for each in placed if each.domain.domains is None and each.domain.nodes is not None]
    selecting = [each for each in leaves if each.selector is not None and not each.is_copied]
    for each in selecting:
        yield from _labels(each, settings)
    usable = [each for each in selecting if _wanted(each)]
    yield from _pairs(usable)
    named = next((each for each in leaves if each.selector is None), None)
    if usable and named is not None:
        one = usable[0]
        message = (
            f"domain {one.name!r} chooses its nodes by label, domain {named.name!r} by name: whether a named node has "
            "these labels is known only in the cluster"
        )
        fix = "check with a list of nodes: `trainyard topology check FILE NODES`"
        yield RULES.finding(f"{one.where}.nodes", message, fix, "fabric-selector-unproved", object=one.name)


def _wanted(each: PlacedNode) -> Mapping[str, str]:
    return each.selector.match_labels if each.selector else {}


def _labels(each: PlacedNode, settings: FabricSettings) -> Iterator[Finding]:
    where, wanted = f"{each.where}.nodes.matchLabels", _wanted(each)
    if not wanted:
        message = f"the selector of domain {each.name!r} has no label; Volcano matches no node with it"
        yield RULES.finding(where, message, "add a label of the nodes", "fabric-selector-empty", object=each.name)
    derived = {
        **settings.shape(each.shape).labels,
        **({SHAPE_LABEL: each.shape} if each.shape else {}),
        **{domain_label(tier): name for tier, name in zip(settings.tier_names, (each.name, *each.above), strict=False)},
        **{rail_label(number): leaf for number, leaf in enumerate(each.rails)},
    }
    for key, value in wanted.items():
        own = key in (HOSTNAME_LABEL, SHAPE_LABEL) or key.startswith((LABEL_PREFIX, RAIL_PREFIX))
        if (own or key in derived) and derived.get(key) != value:
            expected = f"is {derived[key]!r} by the fabric" if key in derived else "is derived from the fabric"
            fix = "list the node by name" if key == HOSTNAME_LABEL else "use another label, or correct the value"
            message = f"domain {each.name!r} selects {key}: {value}, but the label {expected}"
            yield RULES.finding(f"{where}[{key}]", message, fix, "fabric-node-label", object=each.name)


def _pairs(domains: Sequence[PlacedNode]) -> Iterator[Finding]:
    left = _BUDGET
    for group in _groups(domains):
        for position, one in enumerate(group):
            left -= position
            if left < 0:
                yield _unproved(one, group[0])
                continue
            finding = None
            for other in group[:position]:
                mine, its = _wanted(one), _wanted(other)
                if any(its.get(key, value) != value for key, value in mine.items()):
                    continue
                if mine.items() <= its.items() or its.items() <= mine.items():
                    finding = _overlap(one, other)
                    break
                finding = finding or _unproved(one, other)
            if finding is not None:
                yield finding


def _groups(domains: Sequence[PlacedNode]) -> list[list[PlacedNode]]:
    """Group domains with equal values of the labels that all selectors have; pairs in two groups are disjoint."""
    common = set.intersection(*(set(_wanted(each)) for each in domains)) if domains else set()
    found: dict[tuple[str, ...], list[PlacedNode]] = defaultdict(list)
    for each in domains:
        found[tuple(_wanted(each)[key] for key in sorted(common))].append(each)
    return list(found.values())


def _overlap(one: PlacedNode, other: PlacedNode) -> Finding:
    wide, narrow = (one, other) if _wanted(one).items() <= _wanted(other).items() else (other, one)
    message = f"every node that domain {narrow.name!r} selects is in domain {wide.name!r} too"
    fix = "require different values of one label"
    return RULES.finding(f"{one.where}.nodes.matchLabels", message, fix, "fabric-selector-overlap", object=one.name)


def _unproved(one: PlacedNode, other: PlacedNode) -> Finding:
    message = (
        f"a node with the labels of domain {one.name!r} and of domain {other.name!r} would be in both: whether one "
        "exists is known only in the cluster"
    )
    fix = "require different values of one label, or check with a list of nodes: `trainyard topology check FILE NODES`"
    return RULES.finding(f"{one.where}.nodes.matchLabels", message, fix, "fabric-selector-unproved", object=one.name)
