"""Sizing of the embedded control plane for large fleets: memory limits and lease intervals."""

from __future__ import annotations

_SMALL, _STEP = 200, 500
"""Nodes that the base sizing covers, and the step between the size classes of larger fleets."""

CONTROL_PLANE_MEMORY = {
    "etcd": (200, 100),
    "kube-apiserver": (700, 400),
    "kube-controller-manager": (250, 100),
    "kube-scheduler": (90, 50),
    "kwok": (100, 100),
}
"""Base in MiB, and KiB for each node of a large fleet with its pods; host programs declare theirs."""

_LEASE = 40
"""Duration of a kubelet's lease in seconds; it is renewed four times in that."""
_GRACE = 50
"""Seconds without a heartbeat after which Kubernetes 1.36 marks a node unreachable."""
_RENEWALS = 60
"""Renewals per second that two cores can process besides the interactive work."""


def size_class(nodes: int) -> int:
    """Return the size class in nodes: 0 for a small fleet, else rounded up to the next step.

    A change restarts the control plane, so the steps are coarse.
    """
    return 0 if nodes <= _SMALL else -(-nodes // _STEP) * _STEP


def memory_limit(base: int, each: int, nodes: int) -> str:
    """Return the soft memory limit (``GOMEMLIMIT``) of a Go program for a number of nodes.

    Above the limit the program collects garbage more often but never fails. A limit below its live heap would make it
    collect continuously.

    Parameters
    ----------
    base
        MiB of a small fleet.
    each
        KiB for each node of a large fleet with its pods.
    nodes
        Size class.
    """
    return f"{base + each * nodes // 1024}MiB"


def lease_seconds(nodes: int) -> int:
    """Return the lease duration of a simulated node in seconds."""
    return max(_LEASE, -(-4 * nodes // _RENEWALS))


def grace_seconds(nodes: int) -> int:
    """Return the seconds without a lease renewal after which a node is unreachable."""
    return lease_seconds(nodes) + _GRACE - _LEASE
