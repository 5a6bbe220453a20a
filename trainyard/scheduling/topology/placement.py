"""Placement of nodes in HyperNodes: in two domains of a tier, in none, or missing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from trainyard.checks.finding import Finding
from trainyard.scheduling.topology.graph import Graph
from trainyard.scheduling.topology.hypernode_manifests import HyperNode
from trainyard.scheduling.topology.membership import NodeIndex
from trainyard.scheduling.topology.rules import RULES


def placement_findings(graph: Graph, index: NodeIndex | None) -> Iterator[Finding]:
    """Find nodes in wrong domains.

    Parameters
    ----------
    graph
        The HyperNodes; checked only if they form a forest.
    index
        The nodes of the cluster; None if unknown.
    """
    own = {each.name: own_nodes(each, index) for each in graph.by_name.values()}
    if graph.is_forest:
        yield from _depth(graph, own)
        yield from _overlaps(graph, own)
    if index is not None:
        yield from _missing(graph, index)
        yield from _orphans(own, index)


def own_nodes(each: HyperNode, index: NodeIndex | None) -> list[str]:
    """Return the nodes that match a HyperNode's own members."""
    names: list[str] = []
    for member in each.members:
        if member.type != "Node":
            continue
        if member.selector == "exact":
            names.append(member.value)
        elif index is not None:
            matched = index.regex(member.value) if member.selector == "regex" else index.labels(member.value)
            names.extend(matched or ())
    return list(dict.fromkeys(names))


def _depth(graph: Graph, own: dict[str, list[str]]) -> Iterator[Finding]:
    tiers = {each.tier for each in graph.by_name.values()}
    reported: set[str] = set()
    for each in graph.by_name.values():
        if not any(member.type == "Node" for member in each.members):
            continue
        chain = graph.above(each.name)
        top = chain[-1]
        if top.tier < max(tiers) and top.name not in reported:
            reported.add(top.name)
            message = f"HyperNode {top.name!r} of tier {top.tier} has no parent, but others of its tier have"
            fix = f"list it in a HyperNode of tier {min(tier for tier in tiers if tier > top.tier)}"
            yield RULES.finding(top.path(), message, fix, "hypernode-no-parent", object=top.name, file=top.file)
        missing = sorted(tier for tier in tiers - {link.tier for link in chain} if tier < top.tier)
        if missing and own[each.name]:
            nodes = own[each.name]
            message = f"{_listed(nodes)} in HyperNode {each.name!r} {_are(nodes)} in no HyperNode of tier {missing[0]}"
            fix = f"add a HyperNode of tier {missing[0]} between"
            yield RULES.finding(each.path(), message, fix, "hypernode-mixed-depth", object=each.name, file=each.file)


def _overlaps(graph: Graph, own: dict[str, list[str]]) -> Iterator[Finding]:
    first: dict[int, dict[str, str]] = {}
    shared: dict[tuple[int, str, str], list[str]] = {}
    for each in graph.by_name.values():
        nodes = own[each.name]
        if not nodes:
            continue
        for link in graph.above(each.name):
            holders = first.setdefault(link.tier, {})
            for node in nodes:
                holder = holders.setdefault(node, link.name)
                if holder != link.name:
                    shared.setdefault((link.tier, holder, link.name), []).append(node)
    for (tier, one, other), nodes in shared.items():
        message = f"HyperNodes {one!r} and {other!r} of tier {tier} share {_listed(list(dict.fromkeys(nodes)))}"
        parent, fix = graph.by_name[other], "list each node in one HyperNode of a tier"
        yield RULES.finding(parent.path(), message, fix, "hypernode-overlap", object=other, file=parent.file)


def _missing(graph: Graph, index: NodeIndex) -> Iterator[Finding]:
    for each in graph.by_name.values():
        for member in each.members:
            if member.type == "Node" and member.selector == "exact" and member.value not in index.nodes:
                message = f"HyperNode {each.name!r} lists node {member.value!r}, which does not exist"
                if member.value in graph.by_name:
                    message += "; there is a HyperNode with that name"
                yield RULES.finding(
                    each.path(member),
                    message,
                    "correct the name, or remove it",
                    "hypernode-node-missing",
                    object=each.name,
                    file=each.file,
                )


def _orphans(own: dict[str, list[str]], index: NodeIndex) -> Iterator[Finding]:
    """Find nodes in no HyperNode; if any node has a device, nodes without devices may be outside."""
    placed = {node for nodes in own.values() for node in nodes}
    devices = any(node.devices for node in index.nodes.values())
    outside = [node for name, node in index.nodes.items() if name not in placed and (node.devices or not devices)]
    for node in outside:
        offers = ", ".join(f"{amount} {device}" for device, amount in sorted(node.devices.items()))
        message = f"node {node.name!r}{f' ({offers})' if offers else ''} is in no HyperNode"
        fix = "list it in a HyperNode of tier 1"
        yield RULES.finding(f"Node/{node.name}", message, fix, "hypernode-node-orphan", object=node.name)


def _listed(nodes: Sequence[str]) -> str:
    if len(nodes) == 1:
        return f"node {nodes[0]!r}"
    shown = ", ".join(nodes[:3])
    return f"{len(nodes)} nodes ({shown}{', …' if len(nodes) > 3 else ''})"


def _are(nodes: Sequence[str]) -> str:
    return "is" if len(nodes) == 1 else "are"
