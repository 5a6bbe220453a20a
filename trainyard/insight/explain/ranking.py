"""Ranking of causes: what keeps a job from running for certain comes before what others may change by themselves."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from trainyard.insight.explain.cause import Found

RANKS: Final = (
    # The end of the job, and the will of a person.
    *("deadline-exceeded", "job-set-deleted", "runtime-not-supported", "restarts-exhausted"),
    *("volcano-job-aborted", "job-failed"),
    *("managed-elsewhere", "suspended-by-kueue", "suspended-by-user"),
    # Nothing is created.
    *("runtime-missing", "policy-denied", "policy-server-away", "webhook-away"),
    *("queue-missing", "queue-closed", "webhook-rejected"),
    *("quota-exceeded", "quota-not-counted", "priority-class-unknown", "creation-failed"),
    *("controller-not-running", "job-set-controller-not-running", "volcano-controllers-not-running"),
    # What runs before the gang has failed.
    "initializer-failed",
    # Placed pods do not start.
    *("image-pull", "container-configuration", "volume-missing", "volume-pending", "volume-mount", "pod-sandbox"),
    "container-crash",
    # What must leave first does not.
    "pods-terminating",
    # The gang is never placed.
    *("scheduler-not-running", "queue-not-leaf", "queue-tree-stopped"),
    *("pods-gated", "gang-too-few-pods", "node-selector-unmatched", "node-taint-not-tolerated", "node-too-small"),
    *("queue-over-capability", "fabric-no-domain", "gang-larger-than-domain", "gang-larger-than-cluster"),
    # The gang is placed when others change.
    *("queue-guarantees-of-others", "queue-capability-full", "queue-ancestor-full"),
    *("share-lent-out", "share-not-claimed", "share-not-reclaimable"),
    *("nodes-cordoned", "nodes-not-ready", "fabric-fragmented", "node-fragmented"),
    *("queue-over-deserved", "nodes-overcommitted", "cluster-full", "queue-tree-unknown"),
    # The gang waits for something that runs, unless one of the causes above keeps that from running.
    *("initializer-running", "child-suspended"),
    # Explains the past, or the future.
    *("gang-restarting", "scheduler-message", "priority-behind-others", "runtime-deprecated", "gang-restarted"),
)
"""Identifiers of all causes, the most decisive first."""

_POSITION: Final = {identifier: position for position, identifier in enumerate(RANKS)}


def ranked(found: Iterable[Found]) -> list[Found]:
    """Return causes in the order of `RANKS`, each once."""
    first: dict[str, Found] = {}
    for each in found:
        first.setdefault(each.cause.id, each)
    return sorted(first.values(), key=lambda each: _POSITION.get(each.cause.id, len(RANKS)))
