"""Leaders of programs with several replicas, by their Leases and logs."""

from __future__ import annotations

import re
from pathlib import Path

from tests.support import LiveCluster

REPLICATED = (
    *(("volcano-system", f"volcano-{name}") for name in ("admission", "controllers", "scheduler")),
    ("jobset-system", "jobset-controller-manager"),
)
"""Namespace and name of the Deployments of Volcano and JobSet."""
LEASES = (
    ("volcano-system", "volcano"),
    ("volcano-system", "vc-controller-manager"),
    ("jobset-system", "6d4f6a47.jobset.x-k8s.io"),
)
"""Namespace and name of the Leases of their leaders; the webhook manager elects none."""


def leaders(cluster: LiveCluster) -> dict[tuple[str, str], tuple[str, int]] | None:
    """Return holder and pid of the leader of each Lease, once every program has one."""
    status = cluster.status(healthy=True)
    logs = {each["pid"]: Path(each["log"]).read_text() for each in status["processes"] if each["pid"] and each["log"]}
    found = {}
    for lease in LEASES:
        holder = holder_of(cluster, lease)
        acquired = re.compile(rf".*uccessfully acquired lease\b.*\b{re.escape('/'.join(lease))}(?![\w-]).*")
        # On a busy machine the lease may have changed hands: the last line, by its time, is that of the leader.
        lines = {line: pid for pid, text in logs.items() for line in acquired.findall(text)}
        if holder and lines:
            found[lease] = (holder, lines[max(lines)])
    return found if len(found) == len(LEASES) else None


def holder_of(cluster: LiveCluster, lease: tuple[str, str]) -> str:
    """Return the identity of the holder of a Lease; empty if it has none."""
    namespace, name = lease
    found = cluster.get("lease", name, "-n", namespace)
    return (found["spec"].get("holderIdentity") or "") if found else ""


def ready_replicas(cluster: LiveCluster) -> list[int]:
    """Return the ready replicas of each Deployment."""
    found = (cluster.get("deployment", name, "-n", namespace)["status"] for namespace, name in REPLICATED)
    return [status.get("readyReplicas", 0) for status in found]
