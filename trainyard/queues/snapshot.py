"""Snapshot of a queue tree with its capacity and usage, from a file or a cluster."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from trainyard.errors import TrainyardError
from trainyard.manifests.loader import load
from trainyard.queues.amounts import Amounts, units
from trainyard.queues.capacity import capacity_of
from trainyard.queues.queue import ROOT, Queue
from trainyard.queues.queue_manifests import is_manifest, read_manifests, read_queue
from trainyard.queues.tree import QueueTree
from trainyard.queues.units import queue_tree
from trainyard.settings import StackSettings
from trainyard.settings.stack_loader import stack_settings

__all__ = ["Snapshot", "snapshot_of_cluster", "snapshot_of_file", "snapshot_of_settings"]


@dataclass(frozen=True)
class Snapshot:
    """Recorded state of a queue tree.

    Parameters
    ----------
    tree
        The queues.
    capacity
        Capacity of all nodes, in units; None if unknown.
    tenants
        Queues by tenant.
    """

    tree: QueueTree
    capacity: Amounts | None = None
    tenants: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def snapshot_of_file(text: str, source: str) -> Snapshot:
    """Return the snapshot of stack settings or Queue manifests.

    Raises
    ------
    TrainyardError
        The text is neither, or its queues do not form a tree.
    """
    if is_manifest(text, source):
        read = read_manifests({source: text})
        return Snapshot(_sound(QueueTree(read.queues, read.root), source))
    return snapshot_of_settings(stack_settings(load(text, source), source=source), source)


def snapshot_of_settings(settings: StackSettings, source: str) -> Snapshot:
    """Return the snapshot of stack settings.

    Raises
    ------
    TrainyardError
        The queues do not form a tree.
    """
    total = capacity_of(settings).total
    tenants = {name: tenant.queues for name, tenant in settings.tenants.items()}
    return Snapshot(_sound(queue_tree(settings), source), units(total) if total else None, tenants)


def snapshot_of_cluster(queues: Iterable[Mapping[str, Any]], nodes: Iterable[Mapping[str, Any]]) -> Snapshot:
    """Return the snapshot of a cluster.

    Parameters
    ----------
    queues
        Queues of the cluster.
    nodes
        Its nodes; unschedulable ones do not count.
    """
    found: dict[str, Queue] = {}
    for body in queues:
        name, queue, _ = read_queue(body)
        found[name] = queue
    root = found.pop(ROOT, Queue())
    # The scheduler writes the capacity that it divides into root; that is not a configured limit.
    tree = QueueTree(found, Queue(capability=root.capability))
    capacity: Amounts = {}
    for node in nodes:
        if not (node.get("spec") or {}).get("unschedulable"):
            for name, amount in units((node.get("status") or {}).get("allocatable") or {}).items():
                capacity[name] = capacity.get(name, 0) + amount
    return Snapshot(_sound(tree, "the cluster"), capacity or None)


def _sound(tree: QueueTree, source: str) -> QueueTree:
    for cycle in tree.cycles():
        raise TrainyardError(
            f"{source}: queues form a cycle: {' → '.join((*cycle, cycle[0]))}",
            fix="give one of them a parent outside the cycle",
        )
    for name, queue in sorted(tree.queues.items()):
        if queue.parent != ROOT and queue.parent not in tree.queues:
            raise TrainyardError(
                f"{source}: the parent {queue.parent!r} of queue {name!r} does not exist",
                fix="run `trainyard queues check` and correct the findings",
            )
    return tree
