"""Source `hypernodes`: the HyperNodes of a cluster with its nodes, such as of `trainyard snapshot save`.

A settings file has a domain of each tier above every node. Where HyperNodes leave a tier out, a domain is added that is
named after the one below or above it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from trainyard.checks.finding import Finding, Severity
from trainyard.errors import TrainyardError
from trainyard.manifests.loader import load_all
from trainyard.scheduling.topology.graph import Graph
from trainyard.scheduling.topology.hypernode_checks import selector_findings
from trainyard.scheduling.topology.hypernode_manifests import HyperNode, read_manifests
from trainyard.scheduling.topology.inventory import Inventory, InventoryNode, dns_label, raise_findings
from trainyard.scheduling.topology.membership import NodeIndex
from trainyard.scheduling.topology.placement import own_nodes
from trainyard.scheduling.topology.sources.base import FabricSource, Options
from trainyard.scheduling.topology.sources.node_labels import shapes_of
from trainyard.scheduling.topology.to_settings import ImportedFabric, to_settings

_WHAT = "The list of HyperNodes"


def _read(text: str, options: Options) -> ImportedFabric:
    manifests = read_manifests(("", document) for document in load_all(text, "It", fix="correct it"))
    if not manifests.hyper_nodes:
        raise TrainyardError(
            f"{_WHAT} contains no HyperNode",
            fix="use a file of `trainyard snapshot save`, or --from nodes for the labels of nodes",
        )
    graph = Graph(manifests.hyper_nodes)
    found = [*manifests.findings, *graph.findings()]
    raise_findings(f"{_WHAT} is invalid", [each for each in found if each.severity is Severity.ERROR])
    if manifests.nodes is None:
        raise_findings(f"{_WHAT} is incomplete", list(_unresolved(graph.by_name.values())))
    tiers = sorted({each.tier for each in graph.by_name.values()})
    names = {tier: _tier_name(tier, graph.by_name.values()) for tier in tiers}
    index = NodeIndex(manifests.nodes or ())
    paths: dict[str, tuple[str, ...]] = {}
    findings: list[Finding] = []
    for each in graph.by_name.values():
        for node in own_nodes(each, index):
            if node in paths:
                message = f"node {node} is in several HyperNodes, {each.name} among them"
                findings.append(Finding(each.path(), message, "list it in one HyperNode of the lowest tier"))
            paths[node] = _path(graph.above(each.name), tiers, names)
    raise_findings(f"{_WHAT} is invalid", findings)
    known = {node.name: node for node in manifests.nodes or ()}
    shapes, of_node = shapes_of([known[name] for name in paths if name in known])
    nodes = tuple(
        InventoryNode(name, path, f"Node/{name}", of_node.get(name, "")) for name, path in sorted(paths.items())
    )
    notes = tuple(
        f"{finding.message}: left out ({finding.fix})"
        for each in graph.by_name.values()
        for finding in selector_findings(each, index)
    )
    inventory = Inventory(options.tiers or tuple(names.values()), nodes, shapes, notes=notes)
    return to_settings(inventory, what=_WHAT, qualify=options.qualify)


def _unresolved(hyper_nodes: Iterable[HyperNode]) -> Iterator[Finding]:
    """Yield the members that only the nodes of the cluster show."""
    for each in hyper_nodes:
        for member in each.members:
            if member.type == "Node" and member.selector != "exact":
                kind = "regexMatch" if member.selector == "regex" else "labelMatch"
                message = f"HyperNode {each.name!r} selects nodes by {kind}, and the list has no nodes"
                fix = "add the nodes: use a file of `trainyard snapshot save`"
                yield Finding(f"{each.path(member)}.selector", message, fix)


def _tier_name(tier: int, hyper_nodes: Iterable[HyperNode]) -> str:
    named = (each.tier_name for each in hyper_nodes if each.tier == tier and each.tier_name)
    return dns_label(next(named, "")) or f"tier-{tier}"


def _path(above: Sequence[HyperNode], tiers: Sequence[int], names: dict[int, str]) -> tuple[str, ...]:
    """Return the domain of each tier above a node, lowest first."""
    domains = {each.tier: each.name for each in above}
    path: list[str] = []
    for tier in tiers:
        near = next((each.name for each in above if each.tier > tier), above[-1].name)
        path.append(domains.get(tier) or f"{near}-{names[tier]}")
    return tuple(path)


SOURCE = FabricSource("hypernodes", "HyperNodes and nodes of a cluster (trainyard snapshot save)", _read)
