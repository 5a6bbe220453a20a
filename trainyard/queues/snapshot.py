"""Snapshot of a queue tree with its capacity and usage, from a file or a cluster."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from trainyard.errors import TrainyardError
from trainyard.manifests.loader import load
from trainyard.queues.amounts import Amounts, units
from trainyard.queues.capacity import supply_of
from trainyard.queues.queue import ROOT, Queue
from trainyard.queues.queue_manifests import is_manifest, read_manifests, read_queue
from trainyard.queues.tree import QueueTree
from trainyard.queues.units import queue_tree
from trainyard.settings import StackSettings
from trainyard.settings.stack_loader import stack_settings

__all__ = ["Side", "file_side", "live_side", "settings_side"]


@dataclass(frozen=True)
class Side:
    """A queue tree and what belongs to it.

    Parameters
    ----------
    tree
        The queues.
    capacity
        Units that all nodes offer together; None when that is not known.
    tenants
        Queues by tenant.
    """

    tree: QueueTree
    capacity: Amounts | None = None
    tenants: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def file_side(text: str, source: str) -> Side:
    """Return what stack settings or Queue manifests say.

    Raises
    ------
    TrainyardError
        The text is neither, or its queues form no tree.
    """
    if is_manifest(text, source):
        read = read_manifests({source: text})
        return Side(_sound(QueueTree(read.queues, read.root), source))
    return settings_side(stack_settings(load(text, source), source=source), source)


def settings_side(settings: StackSettings, source: str) -> Side:
    """Return what stack settings say.

    Raises
    ------
    TrainyardError
        The queues form no tree.
    """
    total = supply_of(settings).total
    tenants = {name: tenant.queues for name, tenant in settings.tenants.items()}
    return Side(_sound(queue_tree(settings), source), units(total) if total else None, tenants)


def live_side(queues: Iterable[Mapping[str, Any]], nodes: Iterable[Mapping[str, Any]]) -> Side:
    """Return what a cluster has.

    Parameters
    ----------
    queues
        Its Queues.
    nodes
        Its nodes; those that take no pods do not count.
    """
    found: dict[str, Queue] = {}
    for body in queues:
        name, queue, _ = read_queue(body)
        found[name] = queue
    root = found.pop(ROOT, Queue())
    # The scheduler writes what it shares out into root; that is not a configured limit.
    tree = QueueTree(found, Queue(capability=root.capability))
    capacity: Amounts = {}
    for node in nodes:
        if not (node.get("spec") or {}).get("unschedulable"):
            for name, amount in units((node.get("status") or {}).get("allocatable") or {}).items():
                capacity[name] = capacity.get(name, 0) + amount
    return Side(_sound(tree, "the cluster"), capacity or None)


def _sound(tree: QueueTree, source: str) -> QueueTree:
    for cycle in tree.cycles():
        raise TrainyardError(
            f"{source}: queues are above each other: {' → '.join((*cycle, cycle[0]))}",
            fix="give one of them a parent outside",
        )
    for name, queue in sorted(tree.queues.items()):
        if queue.parent != ROOT and queue.parent not in tree.queues:
            raise TrainyardError(
                f"{source}: queue {name!r} is below {queue.parent!r}, which is not there",
                fix="run `trainyard queues check` and correct what it finds",
            )
    return tree
