"""What Volcano accepts and then mishandles: guarantees nobody can have, shares nobody can reclaim, starved queues.

The limit that the scheduler really gives a queue is its parent's limit without what is guaranteed to its siblings,
and its own capability where that is less (plug-in ``capacity`` with the tree, Volcano 1.14.1).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from trainyard.problem import Problem
from trainyard.queues.amounts import Amounts, text, total, units
from trainyard.queues.tree import DEFAULT, ROOT, QueueTree

__all__ = ["consequence_problems"]


def consequence_problems(tree: QueueTree, capacity: Mapping[str, int] | None, path: str) -> Iterator[Problem]:
    """Find what is accepted and goes wrong on a running cluster.

    Parameters
    ----------
    tree
        The queues, without a cycle.
    capacity
        Units that all nodes offer together, None when that is not known.
    path
        Where the queues are, the start of each problem's path.
    """
    guaranteed = _guaranteed(tree)
    yield from _single(tree, path)
    yield from _guarantees(tree, guaranteed, path)
    if capacity is not None:
        yield from _against_fabric(tree, guaranteed, capacity, path)
        yield from _starved(tree, guaranteed, capacity, path)


def _guaranteed(tree: QueueTree) -> dict[str, Amounts]:
    result: dict[str, Amounts] = {}
    for name in reversed(tree.reachable):
        own = units(tree.queues[name].guarantee)
        below = total(result[child] for child in tree.children(name))
        result[name] = {resource: max(own.get(resource, 0), below.get(resource, 0)) for resource in {*own, *below}}
    return result


def _single(tree: QueueTree, path: str) -> Iterator[Problem]:
    for name in tree.reachable:
        queue = tree.queues[name]
        for resource in ("cpu", "memory"):
            if units(queue.capability).get(resource) == 0:
                message = f"queue {name!r}: capability of {resource} is 0, which Volcano reads as no limit"
                fix = "leave it out, or set a small amount"
                yield Problem(f"{path}.{name}.capability[{resource}]", message, fix, "queue-capability-zero")
        if not tree.children(name) and not any(units(queue.deserved).values()):
            yield Problem(
                f"{path}.{name}.deserved",
                f"queue {name!r} has no share: it can borrow what others leave, and never takes anything back",
                "set deserved, or accept that its jobs wait while the cluster is full",
                "queue-deserved-absent",
            )


def _guarantees(tree: QueueTree, guaranteed: Mapping[str, Amounts], path: str) -> Iterator[Problem]:
    for name in tree.reachable:
        capability = units(tree.queues[name].capability)
        own = units(tree.queues[name].guarantee)
        for resource, amount in sorted(guaranteed[name].items()):
            limit = capability.get(resource)
            if limit is not None and amount > limit and own.get(resource, 0) <= limit:
                yield Problem(
                    f"{path}.{name}.capability[{resource}]",
                    f"queue {name!r}: {text(resource, amount)} of {resource} are guaranteed below it, more than its "
                    f"capability of {text(resource, limit)}; the queues beside them would never run",
                    f"raise the capability of {name} to {text(resource, amount)} or lower the guarantees below it",
                    "queue-guarantee-ancestor",
                )


def _against_fabric(
    tree: QueueTree, guaranteed: Mapping[str, Amounts], capacity: Mapping[str, int], path: str
) -> Iterator[Problem]:
    top = tree.children(ROOT)
    for resource, amount in sorted(total(guaranteed[name] for name in top).items()):
        if amount > capacity.get(resource, 0):
            yield Problem(
                path,
                f"{text(resource, amount)} of {resource} are guaranteed to queues, the fabric has "
                f"{text(resource, capacity.get(resource, 0))}: every queue without a guarantee would never run",
                f"lower the guarantees of {_parts(top, guaranteed, resource)}",
                "queue-guarantee-fabric",
            )
    shares = {name: units(tree.queues[name].deserved) for name in top}
    for resource, amount in sorted(total(shares.values()).items()):
        if resource in capacity and amount > capacity[resource]:
            yield Problem(
                path,
                f"the top queues deserve {text(resource, amount)} of {resource}, the fabric has "
                f"{text(resource, capacity[resource])}: not every share can be reclaimed",
                f"lower deserved of {_parts(top, shares, resource)}",
                "queue-deserved-fabric",
            )
    for name in tree.reachable:
        queue = tree.queues[name]
        named = {*units(queue.deserved), *units(queue.guarantee), *units(queue.capability)}
        for resource in sorted(resource for resource in named - set(capacity) if "/" in resource):
            message = f"queue {name!r} names {resource}, which no node of the fabric offers"
            fix = f"use one of {', '.join(sorted(capacity))}"
            yield Problem(f"{path}.{name}", message, fix, "queue-resource-offered")


def _starved(
    tree: QueueTree, guaranteed: Mapping[str, Amounts], capacity: Mapping[str, int], path: str
) -> Iterator[Problem]:
    limits: dict[str, Mapping[str, int]] = {ROOT: capacity}
    for parent in (ROOT, *tree.reachable):
        children = tree.children(parent)
        taken = total(guaranteed[child] for child in children)
        for child in (*children, DEFAULT) if parent == ROOT else children:
            own = guaranteed.get(child, {})
            bound = units(tree.queues[child].capability) if child in tree.queues else {}
            limit: Amounts = {}
            for resource, above in limits[parent].items():
                left = max(0, above - taken.get(resource, 0) + own.get(resource, 0))
                limit[resource] = min(left, bound.get(resource, left))
                if left == 0 and above > 0 and bound.get(resource) != 0:
                    message = f"queue {child!r} is left no {resource}: all {text(resource, above)} are guaranteed to "
                    message += _parts([name for name in children if name != child], guaranteed, resource)
                    fix = f"lower those guarantees, or guarantee {child} a part"
                    yield Problem(f"{path}.{child}", message, fix, "queue-starved")
            limits[child] = limit


def _parts(names: list[str], amounts: Mapping[str, Amounts], resource: str) -> str:
    shares = {name: amounts[name].get(resource, 0) for name in names}
    return ", ".join(f"{name} ({text(resource, share)})" for name, share in shares.items() if share)
