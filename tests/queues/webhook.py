"""The admission webhook of Volcano as an oracle: an independent implementation of its comparisons."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from math import ceil

from trainyard import quantity
from trainyard.settings.tenancy import QueueSettings

Amounts = dict[str, float]


def new_resource(values: Mapping[str, str]) -> tuple[Amounts, Amounts]:
    """Return (cpu and memory, all other counted resources)."""
    basic: Amounts = {"cpu": 0.0, "memory": 0.0}
    scalar: Amounts = {}
    for name, value in values.items():
        amount = quantity.parse(value)
        if name == "cpu":
            basic["cpu"] += float(ceil(amount * 1000))
        elif name == "memory":
            basic["memory"] += float(ceil(amount))
        elif name == "pods":
            scalar[name] = float(ceil(amount))
        elif name == "ephemeral-storage" or "/" in name or name.startswith("hugepages-"):
            scalar[name] = float(ceil(amount * 1000))
    return basic, scalar


def less_partly(left: tuple[Amounts, Amounts], right: tuple[Amounts, Amounts]) -> bool:
    if any(left[0][name] < right[0][name] for name in ("cpu", "memory")):
        return True
    if any(name not in left[1] for name in right[1]):
        return True
    return any(value < right[1].get(name, 0.0) for name, value in left[1].items())


def added(each: Iterable[tuple[Amounts, Amounts]]) -> tuple[Amounts, Amounts]:
    basic: Amounts = {"cpu": 0.0, "memory": 0.0}
    scalar: Amounts = {}
    for one, other in each:
        for name, value in one.items():
            basic[name] += value
        for name, value in other.items():
            scalar[name] = scalar.get(name, 0.0) + value
    return basic, scalar


def own_refused(queue: QueueSettings) -> bool:
    for values in (queue.capability, queue.deserved, queue.guarantee):
        for name, value in values.items():
            if (name == "pods" or "/" in name) and ceil(quantity.parse(value) * Fraction(1000)) % 1000:
                return True
    capability, deserved, guarantee = map(new_resource, (queue.capability, queue.deserved, queue.guarantee))
    if queue.capability and (less_partly(capability, deserved) or less_partly(capability, guarantee)):
        return True
    return bool(queue.guarantee) and less_partly(deserved, guarantee)


def parent_refused(parent: QueueSettings, children: list[QueueSettings]) -> bool:
    if any(less_partly(new_resource(parent.capability), new_resource(child.capability)) for child in children):
        return True
    for kind in ("guarantee", "deserved"):
        limit = getattr(parent, kind) or parent.capability
        total = added(new_resource(getattr(child, kind)) for child in children)
        if limit and less_partly(new_resource(limit), total):
            return True
    return False


def refused(queues: Mapping[str, QueueSettings]) -> bool:
    """Return whether the webhook rejects any queue of the tree, in any order of creation."""
    for name, queue in queues.items():
        children = [child for child in queues.values() if child.parent == name]
        if own_refused(queue) or (children and parent_refused(queue, children)):
            return True
    return False


def refused_by_1_15(queues: Mapping[str, QueueSettings]) -> bool:
    """Return whether the webhook of Volcano 1.15.1 rejects any queue of a tree that is created parents first."""
    live: dict[str, QueueSettings] = {}
    waiting = dict(queues)
    while waiting:
        name = next(name for name, queue in waiting.items() if queue.parent == "root" or queue.parent in live)
        queue = waiting.pop(name)
        if created_refused_by_1_15(queue, live):
            return True
        live[name] = queue
    return False


def created_refused_by_1_15(queue: QueueSettings, live: Mapping[str, QueueSettings]) -> bool:
    for values in (queue.capability, queue.deserved, queue.guarantee):
        if any((name == "pods" or "/" in name) and quantity.parse(value) % 1 for name, value in values.items()):
            return True
    for name, value in queue.guarantee.items():
        if name not in queue.deserved or quantity.parse(queue.deserved[name]) < quantity.parse(value):
            return True
    for name, value in queue.deserved.items():
        if name in queue.capability and quantity.parse(value) > quantity.parse(queue.capability[name]):
            return True
    if queue.parent == "root":
        return False
    above = [live[queue.parent]]
    while above[-1].parent != "root":
        above.append(live[above[-1].parent])
    if len(above) >= 5:
        return True
    own = flat(queue.capability)
    for name, amount in own.items():
        bounds = [bound for each in above if (bound := flat(each.capability).get(name, 0.0)) > 0]
        if bounds and amount > bounds[0]:
            return True
    siblings = [each for each in live.values() if each.parent == queue.parent]
    for kind in ("guarantee", "deserved"):
        sums = added(new_resource(getattr(each, kind)) for each in [*siblings, queue])
        if less_partly(new_resource(getattr(above[0], kind)), sums):
            return True
    return False


def flat(values: Mapping[str, str]) -> Amounts:
    basic, scalar = new_resource(values)
    return {name: amount for name, amount in {**basic, **scalar}.items() if amount > 0}
