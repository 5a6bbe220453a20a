"""Proves a queue tree: what the admission webhook refuses, and what it accepts and the scheduler then mishandles."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from trainyard import quantity
from trainyard.problem import Problem
from trainyard.queues.admission import admission_problems
from trainyard.queues.amounts import counted, units
from trainyard.queues.consequences import consequence_problems
from trainyard.queues.tree import DEFAULT, ROOT, QueueTree
from trainyard.settings import StackSettings
from trainyard.settings.fabric import FabricSettings
from trainyard.settings.tenancy import QueueSettings, TenantSettings

__all__ = ["check_queues", "check_tree"]


def check_queues(settings: StackSettings) -> list[Problem]:
    """Prove the queue tree of a stack.

    Parameters
    ----------
    settings
        The stack; its fabric says how much there is to share out.

    Returns
    -------
    list of Problem
        Errors and warnings (`trainyard.queues.severity` tells which), by queue.
    """
    problems = check_tree(settings.queues, capacity=_fabric_capacity(settings.fabric))
    return [*problems, *_not_leaf(QueueTree(settings.queues), settings.tenants)]


def check_tree(
    queues: Mapping[str, QueueSettings], *, capacity: Mapping[str, str] | None = None, path: str = "trainyard:queues"
) -> list[Problem]:
    """Prove a queue tree.

    Parameters
    ----------
    queues
        Queues by name, ``root`` and ``default`` excluded.
    capacity
        What all nodes offer together, by resource in Kubernetes quantities; None when that is not known.
    path
        Where the queues are, the start of each problem's path.

    Returns
    -------
    list of Problem
        Each says the queue, the resource, the numbers and the fix.
    """
    tree = QueueTree(queues)
    shape = list(_shape(tree, path))
    names = list(_resource_names(tree, path))
    amounts = admission_problems(tree, path)
    cyclic = any(problem.rule == "queue-cycle" for problem in shape)
    known = None if capacity is None else units(capacity)
    later = [] if cyclic else list(consequence_problems(tree, known, path))
    return [*shape, *names, *amounts, *later]


def _fabric_capacity(fabric: FabricSettings) -> dict[str, str] | None:
    nodes = fabric.node_count
    if nodes < 1:
        return None
    shape = fabric.node_shape.capacity
    return {name: quantity.format(quantity.parse(value) * nodes, name) for name, value in shape.items()}


def _shape(tree: QueueTree, path: str) -> Iterator[Problem]:
    for name in sorted({ROOT, DEFAULT} & set(tree.queues)):
        message = f"queue {name!r} belongs to Volcano, which makes it itself"
        yield Problem(f"{path}.{name}", message, "declare a queue of another name below root", "queue-name-reserved")
    for name in sorted(tree.queues):
        parent = tree.queues[name].parent
        if parent == DEFAULT:
            yield Problem(
                f"{path}.{name}.parent",
                f"queue {name!r} is below default: the first job that names no queue would stop all scheduling",
                "use root or a queue of your own as parent",
                "queue-parent-default",
            )
        elif parent != ROOT and parent not in tree.queues:
            known = ", ".join(sorted({ROOT, *tree.queues} - {name}))
            message = f"queue {name!r} is below {parent!r}, which is not declared"
            yield Problem(f"{path}.{name}.parent", message, f"declare it or use one of {known}", "queue-parent-unknown")
    for cycle in tree.cycles():
        message = f"queues are above each other: {' → '.join((*cycle, cycle[0]))}; the scheduler would crash"
        yield Problem(f"{path}.{cycle[0]}.parent", message, "give one of them a parent outside", "queue-cycle")


def _resource_names(tree: QueueTree, path: str) -> Iterator[Problem]:
    for name in sorted(tree.queues):
        queue = tree.queues[name]
        for kind in ("deserved", "guarantee", "capability"):
            for resource in getattr(queue, kind):
                if not counted(resource):
                    yield Problem(
                        f"{path}.{name}.{kind}[{resource}]",
                        f"queue {name!r} names resource {resource!r}, which Volcano ignores: nothing would be limited",
                        "use cpu, memory, pods, ephemeral-storage or a device with its domain, such as nvidia.com/gpu",
                        "queue-resource-name",
                    )


def _not_leaf(tree: QueueTree, tenants: Mapping[str, TenantSettings]) -> Iterator[Problem]:
    for tenant in sorted(tenants):
        for queue in tenants[tenant].queues:
            below = tree.children(queue)
            if below:
                yield Problem(
                    f"trainyard:tenants.{tenant}.queues",
                    f"tenant {tenant!r} uses queue {queue!r}, which has queues below it ({', '.join(below)}): "
                    "one gang there stops scheduling for every tenant",
                    f"use one of {', '.join(tree.leaves)}",
                    "queue-not-leaf",
                )
