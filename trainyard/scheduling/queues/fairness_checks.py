"""Checks of shares that are not available: unset, above the capacity, or lent to queues that are not reclaimable.

Upstream source: plug-in ``capacity`` of Volcano 1.14.1 (``AddPreemptiveFn``, ``AddReclaimableFn``): a queue reclaims
while one resource that its task requests stays within deserved. Everything above deserved can be reclaimed from a
reclaimable queue, nothing from others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction

from trainyard.checks.finding import Finding
from trainyard.scheduling.queues.amounts import Amounts, text, total
from trainyard.scheduling.queues.guarantees import parts
from trainyard.scheduling.queues.paths import Paths
from trainyard.scheduling.queues.queue import DEFAULT, ROOT, Queue
from trainyard.scheduling.queues.rules import RULES
from trainyard.scheduling.queues.scheduling import Scheduling, SharePlugin
from trainyard.scheduling.queues.tree import QueueTree
from trainyard.settings.tenancy import QueueState


def sharing_findings(
    tree: QueueTree,
    real: Mapping[str, Amounts],
    capacity: Mapping[str, int] | None,
    scheduling: Scheduling,
    paths: Paths,
) -> Iterator[Finding]:
    """Find configurations in which queues do not get their shares.

    Parameters
    ----------
    tree
        The queues as the scheduler reads them, without a cycle.
    real
        Effective limit of each queue.
    capacity
        Capacity of all nodes, in units; None if unknown.
    scheduling
        The scheduler.
    paths
        Paths of the queues.
    """
    leaves = _used(tree)
    yield from _shares(tree, leaves, paths)
    yield from _devices(tree, leaves, capacity, paths)
    if scheduling.reclaim:
        yield from _several(leaves, paths)
    yield from _scheduler(tree, leaves, capacity, scheduling, paths)
    if capacity is not None:
        yield from _overcommitted(tree, real, capacity, paths)
        yield from _unreachable(tree, leaves, real, paths)


def _used(tree: QueueTree) -> dict[str, Amounts]:
    """Return the shares of the queues that jobs use."""
    return {
        name: tree.queues[name].amounts("deserved")
        for name in tree.reachable
        if not tree.children(name) and name != DEFAULT and tree.queues[name].state is not QueueState.RETIRED
    }


def _shares(tree: QueueTree, leaves: Mapping[str, Amounts], paths: Paths) -> Iterator[Finding]:
    for name in tree.reachable:
        capability = tree.queues[name].amounts("capability")
        for resource in ("cpu", "memory"):
            if capability.get(resource) == 0:
                message = f"queue {name!r}: capability of {resource} is 0, which Volcano reads as no limit"
                fix, path = "leave it out, or set a small amount", paths.of(name, "capability", resource)
                yield RULES.finding(path, message, fix, "queue-capability-zero", object=name)
    for name, deserved in leaves.items():
        if not any(deserved.values()):
            yield RULES.finding(
                paths.of(name, "deserved"),
                f"queue {name!r} has no share: it borrows free resources and never reclaims",
                "set deserved, or accept that its jobs wait while the cluster is full",
                "queue-deserved-absent",
                object=name,
            )


def _devices(
    tree: QueueTree, leaves: Mapping[str, Amounts], capacity: Mapping[str, int] | None, paths: Paths
) -> Iterator[Finding]:
    shared = {resource for deserved in leaves.values() for resource in deserved}
    devices = sorted(each for each in shared if "/" in each and (capacity is None or capacity.get(each)))
    for name, deserved in leaves.items():
        if not devices or not any(deserved.values()) or any(each in deserved for each in devices):
            continue
        capability = tree.queues[name].amounts("capability")
        usable = [each for each in devices if capability.get(each) != 0]
        if not usable:
            continue
        own = " or ".join(sorted(deserved))
        yield RULES.finding(
            paths.of(name, "deserved"),
            f"queue {name!r} has no share of {', '.join(usable)}, but other queues have one: while it is below its "
            f"share of {own}, it reclaims any number of them",
            f"add {usable[0]} to deserved, or set it to 0 in capability",
            "queue-deserved-device",
            object=name,
        )


def _several(leaves: Mapping[str, Amounts], paths: Paths) -> Iterator[Finding]:
    """Find shares of several resources, which the scheduler does not compare one by one."""
    shares = {name: sorted(each for each in deserved if deserved[each]) for name, deserved in leaves.items()}
    mixed = {name: resources for name, resources in shares.items() if len(resources) > 1}
    if not mixed:
        return
    devices = sorted({each for resources in mixed.values() for each in resources if "/" in each})
    named = sorted({each for resources in mixed.values() for each in resources})
    message = (
        f"{_some(list(mixed))} {_have(mixed)} shares of {', '.join(named)}: a queue reclaims as long as it is within "
        "one of them, and can lose pods as soon as it is above one"
    )
    fix = f"set deserved to {devices[0] if len(devices) == 1 else 'the one resource'} alone, which limits the jobs"
    path = paths.of(next(iter(mixed)), "deserved") if len(mixed) == 1 else paths.of()
    yield RULES.finding(
        path, message, fix, "queue-share-resources", object=next(iter(mixed)) if len(mixed) == 1 else ""
    )


def branch_findings(tree: QueueTree, paths: Paths) -> Iterator[Finding]:
    """Find inner queues whose leaves lend to each other what queues of other branches can reclaim.

    No change of the tree avoids this but a flat one, so it is not among the rules.

    Parameters
    ----------
    tree
        The queues, without a cycle, for a scheduler that reads the tree.
    paths
        Paths of the queues.
    """
    leaves = _used(tree)
    for name in tree.children(ROOT):
        below = [leaf for leaf in leaves if name in tree.ancestors(leaf)]
        outside = [leaf for leaf, deserved in leaves.items() if leaf not in below and any(deserved.values())]
        shares = _larger(total(leaves[leaf] for leaf in below), tree.queues[name].amounts("deserved"))
        borrowing = [
            leaf
            for leaf in below
            if tree.queues[leaf].reclaimable and _may_borrow(tree.queues[leaf], leaves[leaf], shares)
        ]
        if borrowing and outside:
            message = (
                f"{_some(outside)} can reclaim what {_some(borrowing)} {_use(borrowing)} above the own share, although "
                f"{name} is within its share: the scheduler compares leaves only"
            )
            fix = "raise deserved of the leaf that borrows, or accept this"
            yield Finding.warning(paths.of(name, "deserved"), message, fix)


def _may_borrow(queue: Queue, deserved: Amounts, shares: Amounts) -> bool:
    """Return whether a queue can use more than its own share of what its branch deserves."""
    capability = queue.amounts("capability")
    return any(min(amount, capability.get(each, amount)) > deserved.get(each, 0) for each, amount in shares.items())


def _scheduler(
    tree: QueueTree,
    leaves: Mapping[str, Amounts],
    capacity: Mapping[str, int] | None,
    scheduling: Scheduling,
    paths: Paths,
) -> Iterator[Finding]:
    owners = [name for name, deserved in leaves.items() if any(deserved.values())]
    proportion = SharePlugin.PROPORTION in scheduling.plugins
    if owners and scheduling.enqueue and scheduling.reclaim and scheduling.tree:
        message = f"action enqueue prevents {_some(owners)} from reclaiming their shares while the cluster is full"
        yield RULES.finding(
            paths.of(), message, "leave enqueue out of the scheduler's actions", "queue-reclaim-enqueue"
        )
    if owners and not scheduling.reclaim:
        message = f"{_some(owners)} have shares, but action reclaim is off: they are never reclaimed"
        yield RULES.finding(paths.of(), message, "add reclaim to the scheduler's actions", "queue-reclaim-off")
    if owners and proportion and scheduling.plugins == {SharePlugin.PROPORTION}:
        message = f"{_some(owners)} set deserved, which plug-in proportion ignores: it uses weights"
        yield RULES.finding(paths.of(), message, "set weight, or use plug-in capacity", "queue-deserved-ignored")
    weighted = [name for name in tree.reachable if tree.queues[name].weight != 1]
    if weighted and not proportion:
        message = f"{_some(weighted)} set weight, which plug-in capacity ignores"
        yield RULES.finding(paths.of(), message, "set deserved instead", "queue-weight-ignored")
    if proportion and len(scheduling.plugins) > 1 and capacity is not None:
        yield from _both(tree, leaves, capacity, paths)


def _both(
    tree: QueueTree, leaves: Mapping[str, Amounts], capacity: Mapping[str, int], paths: Paths
) -> Iterator[Finding]:
    weights = sum(tree.queues[name].weight for name in leaves)
    for name, amounts in leaves.items():
        queue = tree.queues[name]
        for resource, deserved in sorted(amounts.items()):
            by_weight = int(Fraction(capacity.get(resource, 0) * queue.weight, weights))
            if by_weight < deserved:
                yield RULES.finding(
                    paths.of(name, "deserved", resource),
                    f"queue {name!r} has deserved {text(resource, deserved)} of {resource}; if all queues have demand, "
                    f"its weight of {queue.weight} of {weights} gives it {text(resource, by_weight)}",
                    "leave proportion out of the scheduler's plug-ins, or set weights in proportion to the shares",
                    "queue-plugins-both",
                    object=name,
                )


def _overcommitted(
    tree: QueueTree, real: Mapping[str, Amounts], capacity: Mapping[str, int], paths: Paths
) -> Iterator[Finding]:
    demands: dict[str, Amounts] = {}
    over: set[tuple[str, str]] = set()
    for name in reversed(tree.reachable):
        queue, children = tree.queues[name], tree.children(name)
        if not children:
            demands[name] = queue.amounts("deserved")
            continue
        demands[name] = total(demands[child] for child in children)
        limit = real[name]
        above = [resource for resource, amount in demands[name].items() if amount > limit.get(resource, amount)]
        for resource in sorted(above):
            amount = demands[name][resource]
            if any((child, resource) in over for child in children):
                over.add((name, resource))
            else:
                over.add((name, resource))
                yield RULES.finding(
                    paths.of(name, "capability" if resource in queue.amounts("capability") else ""),
                    f"the child queues of {name!r} have deserved {text(resource, amount)} of {resource}, but the limit "
                    f"of {name} is {text(resource, real[name][resource])}: not every share can be reclaimed",
                    f"lower deserved of {parts(children, demands, resource)}",
                    "queue-deserved-overcommit",
                    object=name,
                )
    top = tree.children(ROOT)
    shares = {name: _larger(tree.queues[name].amounts("deserved"), demands[name]) for name in top}
    for resource, amount in sorted(total(shares.values()).items()):
        if resource in capacity and amount > capacity[resource]:
            yield RULES.finding(
                paths.of(),
                f"the top queues have deserved {text(resource, amount)} of {resource}, but the fabric has "
                f"{text(resource, capacity[resource])}: not every share can be reclaimed",
                f"lower deserved of {parts(top, shares, resource)}",
                "queue-deserved-fabric",
            )


def _larger(one: Amounts, other: Amounts) -> Amounts:
    return {resource: max(one.get(resource, 0), other.get(resource, 0)) for resource in {*one, *other}}


def _unreachable(
    tree: QueueTree, leaves: Mapping[str, Amounts], real: Mapping[str, Amounts], paths: Paths
) -> Iterator[Finding]:
    """Find shares that other queues can hold indefinitely, although all shares together fit."""
    keepers = [name for name in leaves if not tree.queues[name].reclaimable]
    if not keepers:
        return
    honest, worst = _held(tree, real, keeping=False), _held(tree, real, keeping=True)
    free_at_best, free_at_worst = _free(tree, real, honest), _free(tree, real, worst)
    for name, deserved in leaves.items():
        for resource, amount in sorted(deserved.items()):
            left = max(0, free_at_worst[name].get(resource, 0))
            if left < amount <= free_at_best[name].get(resource, 0):
                lenders = [
                    each
                    for each in keepers
                    if each != name and real[each].get(resource, 0) > leaves[each].get(resource, 0)
                ]
                verb = "is" if len(lenders) == 1 else "are"
                yield RULES.finding(
                    paths.of(name, "deserved", resource),
                    f"queue {name!r} has deserved {text(resource, amount)} of {resource}, but {_some(lenders)} may "
                    f"borrow until only {text(resource, left)} remain, and {verb} not reclaimable",
                    f"make {_some(lenders)} reclaimable, or limit them by capability",
                    "queue-reclaim-unreachable",
                    object=name,
                )


def _held(tree: QueueTree, real: Mapping[str, Amounts], *, keeping: bool) -> dict[str, Amounts]:
    """Return the amount that each queue can hold although others have a share of it."""
    result: dict[str, Amounts] = {}
    for name in reversed(tree.reachable):
        queue, children = tree.queues[name], tree.children(name)
        limit = real[name]
        if children:
            below = total(result[child] for child in children)
        elif keeping and not queue.reclaimable:
            below = limit
        else:
            below = queue.amounts("deserved")
        result[name] = {resource: min(amount, limit.get(resource, amount)) for resource, amount in below.items()}
    return result


def _free(tree: QueueTree, real: Mapping[str, Amounts], held: Mapping[str, Amounts]) -> dict[str, Amounts]:
    """Return the amount that remains for each queue when all others hold as much as they can."""
    result: dict[str, Amounts] = {ROOT: real[ROOT]}
    for parent in (ROOT, *tree.reachable):
        children = tree.children(parent)
        taken = total(held[child] for child in children)
        for child in children:
            limit = real[child]
            result[child] = {
                resource: min(limit.get(resource, 0), above - taken.get(resource, 0) + held[child].get(resource, 0))
                for resource, above in result[parent].items()
            }
    return result


def _have(names: Mapping[str, object]) -> str:
    return "has" if len(names) == 1 else "have"


def _use(names: list[str]) -> str:
    return "uses" if len(names) == 1 else "use"


def _some(names: list[str]) -> str:
    return ", ".join(names if len(names) <= 6 else [*names[:5], f"{len(names) - 5} more"])
