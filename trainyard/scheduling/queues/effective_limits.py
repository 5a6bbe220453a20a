"""Effective upper limit of each queue in the scheduler.

Upstream source: plug-ins ``capacity`` (``checkHierarchicalQueue``, ``buildQueueAttrs``) and ``proportion`` of Volcano
1.14.1. In the tree, the limit of a queue is that of its parent less the guarantees of its siblings, and at most its
capability, which it inherits if unset. Without the tree, the same applies to the cluster as a whole, and the guarantees
of all queues count, including inner ones.
"""

from __future__ import annotations

from collections.abc import Mapping

from trainyard.scheduling.queues.amounts import Amounts, total
from trainyard.scheduling.queues.queue import ROOT
from trainyard.scheduling.queues.tree import QueueTree

_UNLIMITED_AT_ZERO = frozenset({"cpu", "memory"})


def flattened(tree: QueueTree) -> QueueTree:
    """Return the tree as a scheduler without tree support reads it: every queue is a child of root."""
    return _Flat(tree)


class _Flat(QueueTree):
    def __init__(self, tree: QueueTree) -> None:
        super().__init__(tree.queues, tree.root)
        self._children = {ROOT: sorted(tree.queues)}


def limits(tree: QueueTree, capacity: Mapping[str, int] | None) -> dict[str, Amounts]:
    """Return the effective limit of each queue that is connected with root.

    Parameters
    ----------
    tree
        The queues.
    capacity
        Capacity of all nodes, in units; None if unknown: then only capabilities count.

    Returns
    -------
    dict of str to dict
        Units by queue and resource; a missing resource is unlimited if the capacity is unknown.
    """
    caps = bounds(tree)
    result: dict[str, Amounts] = {ROOT: dict(capacity or {})}
    for parent in (ROOT, *tree.reachable):
        children = tree.children(parent)
        if not children:
            continue
        above = result[parent]
        taken = total(tree.queues[child].amounts("guarantee") for child in children) if capacity is not None else {}
        left = {resource: max(0, amount - taken.get(resource, 0)) for resource, amount in above.items()}
        for child in children:
            cap = caps[child]
            if capacity is None:
                result[child] = dict(cap)
                continue
            own = tree.queues[child].amounts("guarantee")
            limit = dict(left)
            for resource, amount in own.items():
                if resource in limit:
                    limit[resource] += amount
            for resource, amount in cap.items():
                if amount < limit.get(resource, amount):
                    limit[resource] = amount
            result[child] = limit
    return result


def bounds(tree: QueueTree) -> dict[str, Amounts]:
    """Return the capability of each queue that is connected with root, including what it inherits."""
    result: dict[str, Amounts] = {ROOT: _set(tree.root.amounts("capability"))}
    for parent in (ROOT, *tree.reachable):
        above = result[parent]
        for child in tree.children(parent):
            own = _set(tree.queues[child].amounts("capability"))
            result[child] = {**above, **own} if own else above
    return result


def _set(capability: Amounts) -> Amounts:
    """Return a capability without amounts that the scheduler reads as unset."""
    if not any(capability.get(resource) == 0 for resource in _UNLIMITED_AT_ZERO):
        return capability
    return {name: amount for name, amount in capability.items() if amount or name not in _UNLIMITED_AT_ZERO}
