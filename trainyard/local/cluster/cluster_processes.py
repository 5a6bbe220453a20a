"""All processes of a cluster on this machine, except those of the platform's Deployments."""

from __future__ import annotations

from trainyard.local.cluster.controlplane import ControlPlaneProcess, control_plane
from trainyard.local.cluster.folders import ClusterFolder
from trainyard.local.cluster.node.node_processes import node_processes
from trainyard.local.cluster.state import ClusterState


def cluster_processes(folder: ClusterFolder, state: ClusterState) -> tuple[ControlPlaneProcess, ...]:
    """Return the processes in start order: the control plane, and the nodes that have a kubelet."""
    return (*control_plane(folder, state), *node_processes(folder, state))
