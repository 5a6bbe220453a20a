"""Checks of guarantees that cannot be met, and of what remains for other queues."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from trainyard.checks.finding import Finding
from trainyard.scheduling.queues.amounts import Amounts, text, total
from trainyard.scheduling.queues.paths import Paths
from trainyard.scheduling.queues.queue import DEFAULT, ROOT
from trainyard.scheduling.queues.rules import RULES
from trainyard.scheduling.queues.tree import QueueTree
from trainyard.settings.tenancy import QueueState


def guarantee_findings(
    tree: QueueTree, real: Mapping[str, Amounts], capacity: Mapping[str, int] | None, paths: Paths
) -> Iterator[Finding]:
    """Find guarantees above the capacity, guarantees that are not enforced, and queues for which nothing remains.

    Parameters
    ----------
    tree
        The queues as the scheduler reads them, without a cycle.
    real
        Effective limit of each queue.
    capacity
        Capacity of all nodes, in units; None if unknown.
    paths
        Paths of the queues.
    """
    promised = _promised(tree)
    yield from _ancestors(tree, promised, paths)
    yield from _idle(tree, paths)
    if capacity is not None:
        yield from _fabric(tree, promised, capacity, paths)
        yield from _starved(tree, real, paths)


def parts(names: Iterable[str], amounts: Mapping[str, Amounts], resource: str) -> str:
    """Return the largest amounts of one resource as text, with their queues."""
    shares = [(name, amounts[name].get(resource, 0)) for name in names]
    found = sorted((each for each in shares if each[1]), key=lambda each: (-each[1], each[0]))
    shown = [f"{name} ({text(resource, amount)})" for name, amount in found[:8]]
    return ", ".join([*shown, *([f"{len(found) - 8} more"] if len(found) > 8 else [])])


def _promised(tree: QueueTree) -> dict[str, Amounts]:
    """Return the guarantee of each queue: its own, or the sum below it if that is larger."""
    result: dict[str, Amounts] = {}
    for name in reversed(tree.reachable):
        own, children = tree.queues[name].amounts("guarantee"), tree.children(name)
        if not children:
            result[name] = own
            continue
        below = total(result[child] for child in children)
        result[name] = {resource: max(own.get(resource, 0), below.get(resource, 0)) for resource in {*own, *below}}
    return result


def _ancestors(tree: QueueTree, promised: Mapping[str, Amounts], paths: Paths) -> Iterator[Finding]:
    for name in tree.reachable:
        if not promised[name]:
            continue
        queue, children = tree.queues[name], tree.children(name)
        capability, own = queue.amounts("capability"), queue.amounts("guarantee")
        for resource, amount in sorted(promised[name].items()):
            limit, mine = capability.get(resource), own.get(resource, 0)
            if limit is not None and amount > limit and mine <= limit:
                yield RULES.finding(
                    paths.of(name, "capability", resource),
                    f"queue {name!r}: {text(resource, amount)} of {resource} are guaranteed below it, more than its "
                    f"capability of {text(resource, limit)}; the siblings of those queues would never run",
                    f"raise the capability of {name} to {text(resource, amount)} or lower the guarantees below it",
                    "queue-guarantee-ancestor",
                    object=name,
                )
            elif children and mine < amount and not own:
                yield RULES.finding(
                    paths.of(name, "guarantee", resource),
                    f"queue {name!r}: {text(resource, amount)} of {resource} are guaranteed below it, to "
                    f"{parts(children, promised, resource)}, but its own guarantee is unset: siblings of {name} can "
                    "use them",
                    f"set guarantee of {name} to {text(resource, amount)} (and deserved to as much)",
                    "queue-guarantee-silent",
                    object=name,
                )


def _idle(tree: QueueTree, paths: Paths) -> Iterator[Finding]:
    for name in tree.reachable:
        queue = tree.queues[name]
        if queue.state is QueueState.OPEN or not any(queue.amounts("guarantee").values()):
            continue
        kept = ", ".join(f"{text(resource, each)} {resource}" for resource, each in queue.amounts("guarantee").items())
        message = f"queue {name!r} is {queue.state.value} but has a guarantee of {kept}, which stays unused"
        yield RULES.finding(paths.of(name, "guarantee"), message, "remove it", "queue-closed-guarantee", object=name)


def _fabric(
    tree: QueueTree, promised: Mapping[str, Amounts], capacity: Mapping[str, int], paths: Paths
) -> Iterator[Finding]:
    top = tree.children(ROOT)
    for resource, amount in sorted(total(promised[name] for name in top).items()):
        if amount > capacity.get(resource, 0):
            yield RULES.finding(
                paths.of(),
                f"{text(resource, amount)} of {resource} are guaranteed to queues, but the fabric has "
                f"{text(resource, capacity.get(resource, 0))}: every queue without a guarantee would never run",
                f"lower the guarantees of {parts(top, promised, resource)}",
                "queue-guarantee-fabric",
            )


def _starved(tree: QueueTree, real: Mapping[str, Amounts], paths: Paths) -> Iterator[Finding]:
    guarantees = {name: tree.queues[name].amounts("guarantee") for name in tree.reachable}
    for parent in (ROOT, *tree.reachable):
        children = tree.children(parent)
        taken = total(guarantees[child] for child in children)
        gone = sorted(r for r, above in real[parent].items() if above and taken.get(r, 0) >= above and r != "pods")
        if not gone or (parent != ROOT and not children):
            continue
        names = children if parent != ROOT or DEFAULT in children else [*children, DEFAULT]
        for child in names:
            queue = tree.queues.get(child)
            if queue is not None and queue.state is QueueState.RETIRED:
                continue
            for resource in gone:
                own = guarantees.get(child, {}).get(resource, 0)
                if own or (queue is not None and queue.amounts("capability").get(resource) == 0):
                    continue
                others = [name for name in children if name != child]
                yield RULES.finding(
                    paths.of(child),
                    f"no {resource} remains for queue {child!r}: all {text(resource, real[parent][resource])} are "
                    f"guaranteed to {parts(others, guarantees, resource)}",
                    f"lower those guarantees, or set a guarantee of {child}",
                    "queue-starved",
                    object=child,
                )
