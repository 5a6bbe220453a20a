"""Nodes of the fabric in the cluster: missing ones, and nodes whose labels put them in two domains.

A HyperNode may name a missing node: Volcano places nothing there, and uses the node once it exists. So a few missing
nodes are a warning, and more than the settings allow are an error. Of a domain that chooses its nodes by label, as many
are missing as its labels match too few. A node in two domains is always an error.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pulumi

from trainyard.checks.finding import Finding
from trainyard.errors import TrainyardError
from trainyard.scheduling.topology.fabric_compiler import Fabric, FabricDomain, compile_fabric
from trainyard.scheduling.topology.selected_nodes import Labels, selected_nodes, shared_nodes
from trainyard.settings.stack import StackSettings

Selected = Mapping[str, Sequence[str]]
"""Nodes of each domain that chooses its nodes by label."""


def check_fabric_nodes(settings: StackSettings, live_nodes: Labels, *, may_be_new: bool = False) -> None:
    """Warn about nodes of the fabric that are missing in the cluster, and reject nodes in two domains.

    Parameters
    ----------
    settings
        Settings with a valid fabric.
    live_nodes
        Labels of the cluster's nodes, by name.
    may_be_new
        Whether the same program may have created the cluster a moment ago. Without any node, that is a warning.

    Raises
    ------
    TrainyardError
        A node is in two domains, or more nodes are missing than ``maxMissingNodes`` allows. In a preview of a cluster
        whose nodes `up` creates, this is a warning.
    """
    fabric, compiled = settings.fabric, compile_fabric(settings.fabric)
    fails = settings.cluster.exists or not pulumi.runtime.is_dry_run()
    fails = fails and not (may_be_new and not live_nodes)
    if shared := shared_nodes(compiled, live_nodes):
        _report(TrainyardError("Nodes of the cluster are in two domains of the fabric", findings=shared), fails=fails)
    selected = selected_nodes(compiled, live_nodes)
    _warn_of_additional(compiled, selected)
    missing = list(_missing(compiled, live_nodes, selected))
    count = sum(number for _, number in missing)
    if not missing:
        return
    number = f"{count} of {fabric.node_count} nodes of the fabric are missing in the cluster"
    if count <= fabric.missing_limit:
        lines = "\n".join(f"  {each.path}: {each.message}" for each, _ in missing)
        pulumi.log.warn(f"{number}; gangs run on the others until these are back\n{lines}")
        return
    error = TrainyardError(
        f"{number}, more than trainyard:fabric.maxMissingNodes: {fabric.max_missing_nodes} allows",
        findings=[each for each, _ in missing],
        fix="correct trainyard:fabric, or raise maxMissingNodes while nodes are under repair"
        if settings.cluster.exists
        else "run `trainyard cluster up`, which creates the nodes, or correct trainyard:fabric",
    )
    _report(error, fails=fails)


def _report(error: TrainyardError, *, fails: bool) -> None:
    if fails:
        raise error
    pulumi.log.warn(str(error))


def _missing(fabric: Fabric, live_nodes: Labels, selected: Selected) -> Iterator[tuple[Finding, int]]:
    """Yield what is missing, with the number of nodes."""
    for node in fabric.nodes:
        if not node.selected and node.name not in live_nodes:
            yield Finding(f"trainyard:fabric.{node.path[0]}", f"the cluster has no node {node.name}"), 1
    for domain in fabric.domains:
        if domain.selector and (lacking := domain.node_count - len(selected[domain.name])) > 0:
            yield Finding(f"trainyard:fabric.{domain.name}", _matches(domain, selected[domain.name])), lacking


def _warn_of_additional(fabric: Fabric, selected: Selected) -> None:
    more = [
        f"  trainyard:fabric.{domain.name}: {_matches(domain, selected[domain.name])}"
        for domain in fabric.domains
        if domain.selector and len(selected[domain.name]) > domain.node_count
    ]
    if more:
        lines = "\n".join(more)
        pulumi.log.warn(f"Domains have more nodes than their count, which the queues do not distribute\n{lines}")


def _matches(domain: FabricDomain, found: Sequence[str]) -> str:
    labels = ", ".join(f"{key}={value}" for key, value in domain.selector.items())
    return f"{len(found)} of {domain.node_count} nodes have the labels {labels}"
