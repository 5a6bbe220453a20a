"""Names and addresses of the nodes of a cluster; pure.

Every cluster has the same addresses, because its network exists only in its own namespaces.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from trainyard.errors import TrainyardError

GATEWAY = "10.98.0.1"
"""Address of the API server in the network of the nodes."""
POD_RANGE = "10.245.0.0/16"
MANY_NODES = 8
NAMESPACE_FOLDER = Path("/run/netns")
"""Folder in which iproute2 keeps named network namespaces."""

_FIRST = 11


@dataclass(frozen=True)
class NodePlan:
    """One node.

    Parameters
    ----------
    cluster
        Name of the cluster on this machine.
    name
        Name of the node.
    index
        Its position in the fabric.
    """

    cluster: str
    name: str
    index: int

    @property
    def address(self) -> str:
        """Address of the node."""
        return f"10.98.0.{_FIRST + self.index}"

    @property
    def pods(self) -> str:
        """Address range of its pods."""
        return f"10.245.{self.index}.0/24"

    @property
    def namespace(self) -> str:
        """Name of its network namespace."""
        return f"{junction(self.cluster)}.{self.index}"

    @property
    def link(self) -> str:
        """Name of its end of the bridge."""
        return f"node{self.index}"

    @property
    def process(self) -> str:
        """Name of its process in the status of the cluster."""
        return f"node-{self.name}"

    @property
    def cgroup(self) -> str:
        """Path of its cgroup."""
        return f"{control_group(self.cluster)}/{self.name}"


def machine_name(root: Path) -> str:
    """Return what distinguishes a cluster on this machine from those of the same name with other state folders.

    Parameters
    ----------
    root
        Folder of the cluster.
    """
    return f"{root.name}-{hashlib.sha256(str(root.resolve()).encode()).hexdigest()[:8]}"


def control_group(cluster: str) -> str:
    """Return the path of the cgroup of a cluster's nodes."""
    return f"/trainyard-{cluster}"


def junction(cluster: str) -> str:
    """Return the name of the network namespace with the bridge between the nodes of a cluster."""
    return f"trainyard-{cluster}"


def plan_nodes(cluster: str, names: Sequence[str]) -> tuple[NodePlan, ...]:
    """Return the nodes of a cluster.

    Raises
    ------
    TrainyardError
        There are too many, or none.
    """
    if not 0 < len(names) <= MANY_NODES:
        raise TrainyardError(
            f"The fabric has {len(names)} nodes; provider node starts a kubelet and containerd for each",
            fix=f"declare 1 to {MANY_NODES} in trainyard:fabric, or use the embedded provider, which simulates them",
        )
    return tuple(NodePlan(cluster, name, index) for index, name in enumerate(names))
