"""Nodes of the fabric that are missing in the cluster: a warning for a few, an error for more than the settings allow.

A HyperNode may name a missing node: Volcano places nothing there, and uses the node once it exists.
"""

from __future__ import annotations

from collections.abc import Collection

import pulumi

from trainyard.checks.finding import Finding
from trainyard.errors import TrainyardError
from trainyard.settings import StackSettings
from trainyard.topology import compile_fabric

__all__ = ["check_fabric_nodes"]


def check_fabric_nodes(settings: StackSettings, live_nodes: Collection[str]) -> None:
    """Warn about nodes of the fabric that are missing in the cluster.

    Parameters
    ----------
    settings
        Settings with a valid fabric.
    live_nodes
        Names of the cluster's nodes.

    Raises
    ------
    TrainyardError
        More nodes are missing than ``maxMissingNodes`` allows. In a preview of a cluster whose nodes `up` creates, this
        is a warning.
    """
    fabric = settings.fabric
    missing = [
        Finding(f"trainyard:fabric.{node.path[0]}", f"the cluster has no node {node.name}")
        for node in compile_fabric(fabric).nodes
        if node.name not in live_nodes
    ]
    if not missing:
        return
    number = f"{len(missing)} of {fabric.node_count} nodes of the fabric are missing in the cluster"
    if len(missing) <= fabric.missing_limit:
        lines = "\n".join(f"  {each.path}: {each.message}" for each in missing)
        pulumi.log.warn(f"{number}; gangs run on the others until these are back\n{lines}")
        return
    exists = settings.cluster.exists
    error = TrainyardError(
        f"{number}, more than trainyard:fabric.maxMissingNodes: {fabric.max_missing_nodes} allows",
        findings=missing,
        fix="correct trainyard:fabric, or raise maxMissingNodes while nodes are under repair"
        if exists
        else "run `trainyard cluster up`, which creates the nodes, or correct trainyard:fabric",
    )
    if exists or not pulumi.runtime.is_dry_run():
        raise error
    pulumi.log.warn(str(error))
