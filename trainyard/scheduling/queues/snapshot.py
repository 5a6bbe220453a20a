"""Snapshot of a queue tree with its capacity and usage, from a file or a cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from trainyard.checks.finding import Severity
from trainyard.errors import TrainyardError
from trainyard.manifests.loader import load
from trainyard.scheduling.queues.amounts import Amounts, total, units
from trainyard.scheduling.queues.capacity import capacity_of
from trainyard.scheduling.queues.queue import ROOT, Queue
from trainyard.scheduling.queues.queue_manifests import is_manifest, read_manifests, read_queue
from trainyard.scheduling.queues.scheduling import Scheduling
from trainyard.scheduling.queues.tree import QueueTree
from trainyard.scheduling.queues.units import queue_tree
from trainyard.settings.tenancy import QueueState

if TYPE_CHECKING:
    from trainyard.settings.stack import StackSettings


_CLOSED = frozenset({"Closed", "Closing"})


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
    node
        Capacity of each node with devices, in units; None if unknown, or if they differ.
    scheduling
        The scheduler, if it is known.
    """

    tree: QueueTree
    capacity: Amounts | None = None
    tenants: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    node: Amounts | None = None
    scheduling: Scheduling | None = None


def snapshot_of_file(
    text: str, source: str, scheduling: Callable[[StackSettings], Scheduling] | None = None, *, valid: bool = True
) -> Snapshot:
    """Return the snapshot of stack settings or Queue manifests.

    Parameters
    ----------
    text, source
        The text and its name.
    scheduling
        Returns the scheduler of stack settings.
    valid
        Whether manifests must be valid; those of the present state are what they are.

    Raises
    ------
    TrainyardError
        The text is neither, its queues do not form a tree, or manifests are invalid.
    """
    if is_manifest(text, source):
        read = read_manifests({source: text})
        errors = [finding for finding in read.findings if finding.severity is Severity.ERROR]
        if errors and valid:
            raise TrainyardError(f"{source}: the queues are invalid", findings=errors)
        return Snapshot(_sound(QueueTree(read.queues, read.root), source))
    from trainyard.settings.stack_loader import stack_settings  # Imports all settings, which a cluster does not need.

    return snapshot_of_settings(stack_settings(load(text, source), source=source), source, scheduling)


def snapshot_of_settings(
    settings: StackSettings, source: str, scheduling: Callable[[StackSettings], Scheduling] | None = None
) -> Snapshot:
    """Return the snapshot of stack settings; `scheduling` returns their scheduler.

    Raises
    ------
    TrainyardError
        The queues do not form a tree.
    """
    capacity = capacity_of(settings)
    return Snapshot(
        _sound(queue_tree(settings), source),
        units(capacity.total) if capacity.total else None,
        {name: tenant.queues for name, tenant in settings.active_tenants.items()},
        units(capacity.node) if capacity.node else None,
        scheduling(settings) if scheduling else None,
    )


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
        state = (body.get("status") or {}).get("state")
        found[name] = replace(queue, state=QueueState.CLOSED) if state in _CLOSED else queue
    root = found.pop(ROOT, Queue())
    # The scheduler writes the capacity that it divides into root; that is not a configured limit.
    tree = QueueTree(found, Queue(capability=root.capability))
    found_nodes = [
        units((node.get("status") or {}).get("allocatable") or {})
        for node in nodes
        if not (node.get("spec") or {}).get("unschedulable")
    ]
    return Snapshot(_sound(tree, "the cluster"), total(found_nodes) or None, node=_equal_nodes(found_nodes))


def _equal_nodes(nodes: Iterable[Amounts]) -> Amounts | None:
    """Return the capacity of each node with devices; None if their devices differ."""
    found = [node for node in nodes if any("/" in name for name in node)]
    devices = {tuple(sorted((name, amount) for name, amount in node.items() if "/" in name)) for node in found}
    if len(devices) != 1:
        return None
    return {name: min(node.get(name, 0) for node in found) for name in found[0]}


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
