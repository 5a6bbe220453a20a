"""Checks of HyperNode manifests against the behavior of Volcano 1.14.1."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from trainyard.checks.finding import Finding
from trainyard.checks.report.text import listed
from trainyard.scheduling.topology.graph import Graph
from trainyard.scheduling.topology.hypernode_manifests import FabricManifests, HyperNode, Member
from trainyard.scheduling.topology.membership import NodeIndex, is_anchored, regex_fault
from trainyard.scheduling.topology.placement import placement_findings
from trainyard.scheduling.topology.rules import RULES

_SOURCE_LABEL = "volcano.sh/network-topology-source"


def check_hyper_nodes(manifests: FabricManifests) -> list[Finding]:
    """Find all errors and warnings of HyperNodes.

    Parameters
    ----------
    manifests
        All desired HyperNodes of the cluster; and its nodes, if membership is to be checked.

    Returns
    -------
    list of Finding
        Errors and warnings, by rule in the order of the manifests.
    """
    return [*manifests.findings, *_findings(manifests)]


def _findings(manifests: FabricManifests) -> Iterator[Finding]:
    hyper_nodes = manifests.hyper_nodes
    yield from _repeated(hyper_nodes)
    index = None if manifests.nodes is None else NodeIndex(manifests.nodes)
    for each in hyper_nodes:
        yield from _own(each)
        yield from selector_findings(each, index)
    yield from _tiers(hyper_nodes)
    graph = Graph(hyper_nodes)
    yield from graph.findings()
    yield from placement_findings(graph, index)


def _repeated(hyper_nodes: Sequence[HyperNode]) -> Iterator[Finding]:
    first: dict[str, HyperNode] = {}
    for each in hyper_nodes:
        if each.name in first:
            other = first[each.name].file
            message = f"HyperNode {each.name!r} is declared twice{f', first in {other}' if other else ''}"
            fix = "remove one, or use a unique name"
            yield _finding(each, each.path(), message, fix, "hypernode-name-duplicate")
        first.setdefault(each.name, each)


def _own(each: HyperNode) -> Iterator[Finding]:
    if each.tier == 0:
        message = f"HyperNode {each.name!r} has tier 0"
        yield _finding(each, f"{each.path()}.spec.tier", message, "number the tiers from 1", "hypernode-tier-zero")
    if _SOURCE_LABEL in each.labels:
        message = f"HyperNode {each.name!r} has label {_SOURCE_LABEL}: {each.labels[_SOURCE_LABEL]}"
        fix = "remove the label, or remove this HyperNode, which the discovery owns, from the file"
        yield _finding(each, f"{each.path()}.metadata.labels", message, fix, "hypernode-discovered")
    kinds = {member.type for member in each.members}
    if len(kinds) > 1:
        message = f"HyperNode {each.name!r} of tier {each.tier} lists nodes and HyperNodes"
        fix = "move the nodes to a separate HyperNode one tier below"
        yield _finding(each, f"{each.path()}.spec.members", message, fix, "hypernode-member-kind")
    counts: Counter[tuple[str, str]] = Counter()
    for member in each.members:
        if member.selector == "exact":
            key = (member.type, member.value)
            counts[key] += 1
            if counts[key] == 2:
                message = f"{member.type} {member.value!r} is listed more than once in HyperNode {each.name!r}"
                yield _finding(each, each.path(member), message, "list it once", "hypernode-member-repeated")


def selector_findings(each: HyperNode, index: NodeIndex | None) -> Iterator[Finding]:
    """Yield what is wrong with selectors other than exact ones; without an index, nodes are unknown."""
    for member in each.members:
        if member.selector == "exact":
            continue
        where = f"{each.path(member)}.selector"
        if member.type == "HyperNode":
            kind = "regexMatch" if member.selector == "regex" else "labelMatch"
            message = f"HyperNode {each.name!r} selects HyperNodes by {kind}, which the scheduler ignores"
            fix = "list each member HyperNode by exactMatch"
            yield _finding(each, where, message, fix, "hypernode-selector-ignored")
        elif member.selector == "regex":
            yield from _regex(each, member, where, index)
        else:
            yield from _labels(each, member, where, index)


def _regex(each: HyperNode, member: Member, where: str, index: NodeIndex | None) -> Iterator[Finding]:
    pattern: str = member.value
    shown = pattern if len(pattern) <= 80 else f"{pattern[:77]}…"
    fault = regex_fault(pattern)
    if fault is not None:
        message = f"regular expression {shown!r} is not valid: {fault}"
        yield _finding(each, where, message, "correct it", "hypernode-regex-invalid")
        return
    matched = None if index is None else index.regex(pattern)
    if not is_anchored(pattern):
        message = f"regular expression {shown!r} is not anchored: it matches every node whose name contains a match"
        extra = _beyond(pattern, matched, index)
        if extra:
            message += f", {listed(extra, 3)} too"
        yield _finding(each, where, message, f"write ^(?:{shown})$", "hypernode-regex-unanchored")
    if index is not None and matched is None:
        message = f"regular expression {shown!r} is not evaluated: its nodes are unknown"
        fix = "list the nodes by exactMatch, or use a simpler expression"
        yield _finding(each, where, message, fix, "hypernode-selector-unchecked")
    elif matched == []:
        message = f"regular expression {shown!r} matches no node"
        yield _finding(each, where, message, "correct it, or add the nodes", "hypernode-node-missing")


def _beyond(pattern: str, matched: list[str] | None, index: NodeIndex | None) -> list[str]:
    """Return the names that match only because an expression is not anchored."""
    if matched is None or index is None:
        return []
    whole = index.regex(f"^(?:{pattern})$")
    return sorted(set(matched) - set(whole)) if whole is not None else []


def _labels(each: HyperNode, member: Member, where: str, index: NodeIndex | None) -> Iterator[Finding]:
    if not member.value.get("matchLabels") and not member.value.get("matchExpressions"):
        message = f"an empty labelMatch in HyperNode {each.name!r} matches no node"
        fix = "set a label, or list the nodes by exactMatch"
        yield _finding(each, where, message, fix, "hypernode-label-match-empty")
        return
    if index is None:
        return
    matched = index.labels(member.value)
    if matched is None:
        message = f"a labelMatch in HyperNode {each.name!r} cannot be evaluated"
        fix = "use matchLabels, and matchExpressions with In, NotIn, Exists or DoesNotExist"
        yield _finding(each, where, message, fix, "hypernode-selector-unchecked")
    elif not matched:
        message = f"a labelMatch in HyperNode {each.name!r} matches no node"
        yield _finding(each, where, message, "correct it, or label the nodes", "hypernode-node-missing")


def _tiers(hyper_nodes: Sequence[HyperNode]) -> Iterator[Finding]:
    by_tier: dict[int, HyperNode] = {}
    by_name: dict[str, HyperNode] = {}
    for each in hyper_nodes:
        first = by_tier.setdefault(each.tier, each)
        where = f"{each.path()}.spec.tierName"
        if each.tier_name != first.tier_name:
            message = (
                f"tier {each.tier} has the name {each.tier_name!r} in HyperNode {each.name!r}, but "
                f"{first.tier_name!r} in {first.name!r}"
            )
            fix = "give all HyperNodes of a tier the same tierName"
            yield _finding(each, where, message, fix, "hypernode-tier-name-mixed")
        if not each.tier_name:
            continue
        named = by_name.setdefault(each.tier_name, each)
        if named.tier != each.tier:
            message = (
                f"tier name {each.tier_name!r} is used for tier {each.tier} ({each.name!r}) and for tier {named.tier} "
                f"({named.name!r})"
            )
            yield _finding(each, where, message, "use a unique name for each tier", "hypernode-tier-name")
    tiers = sorted(by_tier)
    missing = sorted(set(range(1, tiers[-1] + 1)) - set(tiers))[:10] if tiers and tiers[-1] <= 1000 else []
    if missing or (tiers and tiers[-1] > 1000):
        top = by_tier[tiers[-1]]
        shown = ", ".join(map(str, missing)) or "most"
        message = f"tiers in use are {', '.join(map(str, tiers[:10]))}; {shown} of those below {tiers[-1]} are not"
        yield _finding(top, f"{top.path()}.spec.tier", message, "number the tiers 1, 2, 3, …", "hypernode-tier-gap")


def _finding(each: HyperNode, where: str, message: str, fix: str, rule: str) -> Finding:
    return RULES.finding(where, message, fix, rule, object=each.name, file=each.file)
