"""Generate the tables of docs/explain.md from the declared causes: ``python -m tools.reference.causes``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from trainyard.insight.explain.cause import Family
from trainyard.insight.explain.causes import FAMILIES

PATCHED: Final = frozenset(
    {
        *("image-pull", "container-configuration", "container-crash", "initializer-failed"),
        *("job-failed", "gang-restarting", "gang-restarted", "restarts-exhausted"),
        *("queue-closed", "nodes-not-ready", "pods-terminating", "quota-not-counted", "runtime-not-supported"),
    }
)
"""Causes shown on the real control plane with a patched status: simulated nodes run no container and never fail."""
EVENTS: Final = frozenset({"volume-mount", "pod-sandbox"})
"""Causes shown on the real control plane with a patched status and an event: simulated nodes have no kubelet."""
LIVE: Final = frozenset(
    {
        *("queue-missing", "queue-not-leaf", "queue-tree-stopped", "queue-over-capability", "queue-capability-full"),
        *("queue-ancestor-full", "queue-guarantees-of-others", "queue-over-deserved", "cluster-full"),
        *("queue-tree-unknown", "nodes-overcommitted", "gang-too-few-pods", "node-fragmented", "scheduler-message"),
        *("share-lent-out", "share-not-claimed", "share-not-reclaimable"),
        *("fabric-no-domain", "gang-larger-than-domain", "fabric-fragmented", "gang-larger-than-cluster"),
        *("node-selector-unmatched", "node-taint-not-tolerated", "node-too-small", "nodes-cordoned"),
        *("priority-behind-others", "priority-class-unknown"),
        *("volume-missing", "volume-pending", "pods-gated", "initializer-running"),
        *("policy-denied", "policy-server-away", "webhook-away", "webhook-rejected", "quota-exceeded"),
        *("creation-failed", "suspended-by-kueue"),
        *("scheduler-not-running", "job-set-controller-not-running", "volcano-controllers-not-running"),
        "controller-not-running",
        *("runtime-missing", "runtime-deprecated", "deadline-exceeded", "job-set-deleted", "volcano-job-aborted"),
        *("managed-elsewhere", "suspended-by-user", "child-suspended"),
    }
)
"""Causes shown on the real control plane as it is."""


def cause_tables() -> str:
    """Return a Markdown table of the causes of each family."""
    return "\n\n".join("\n".join(_table(family)) for family in FAMILIES.values()) + "\n"


def _table(family: Family) -> Iterator[str]:
    yield f"### {family.name}"
    yield "| cause | looks at | example | scenario |"
    yield "|---|---|---|---|"
    for cause in family.causes:
        found = cause.found(**cause.example)
        example = f"{found.message[0].upper()}{found.message[1:]}. *Fix:* {found.fix}."
        cells = (f"`{cause.id}`: {cause.title}", cause.looks_at, example, _scenario(cause.id))
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _scenario(cause: str) -> str:
    kinds = {"live": LIVE, "patched": PATCHED, "events": EVENTS}
    return next((kind for kind, causes in kinds.items() if cause in causes), "recorded")


if __name__ == "__main__":
    print(cause_tables(), end="")
