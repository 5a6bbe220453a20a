"""Sizing of the embedded control plane for large fleets: memory limits and lease intervals."""

from __future__ import annotations

__all__ = ["grace_seconds", "lease_seconds", "memory_limit", "size_class"]

_SMALL, _STEP = 200, 500
"""Nodes that need nothing more, and the step in which larger fleets are told apart."""

_MEMORY = {
    "etcd": (200, 100),
    "kube-apiserver": (700, 400),
    "kube-controller-manager": (250, 100),
    "kube-scheduler": (90, 50),
    "kwok": (100, 100),
    "vc-scheduler": (300, 200),
    "vc-controller-manager": (120, 50),
    "vc-webhook-manager": (100, 0),
    "jobset": (100, 20),
    "opa": (80, 0),
}
"""MiB, and KiB for each node of a large fleet and the pods on it."""

_LEASE = 40
"""Seconds a kubelet's lease lasts; it is renewed four times in that."""
_GRACE = 50
"""Seconds without a sign of life after which Kubernetes 1.36 calls a node unreachable."""
_RENEWALS = 60
"""Renewals a second that two cores bear beside the work that a person waits for."""


def size_class(nodes: int) -> int:
    """Return the nodes to make room for: 0 for a small fleet, else the next full step.

    A control plane is started anew when this changes, so it changes seldom.
    """
    return 0 if nodes <= _SMALL else -(-nodes // _STEP) * _STEP


def memory_limit(program: str, nodes: int) -> str:
    """Return the soft limit of a Go program (``GOMEMLIMIT``) where it serves that many nodes.

    It collects garbage harder above it and never fails because of it; a limit below what it must hold would make it
    collect garbage all the time.
    """
    base, each = _MEMORY[program]
    return f"{base + each * nodes // 1024}MiB"


def lease_seconds(nodes: int) -> int:
    """Return the seconds that a simulated node's lease lasts."""
    return max(_LEASE, -(-4 * nodes // _RENEWALS))


def grace_seconds(nodes: int) -> int:
    """Return the seconds after which a node that does not renew its lease is unreachable."""
    return lease_seconds(nodes) + _GRACE - _LEASE
