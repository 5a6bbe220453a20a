"""The admission webhook of Volcano 1.14.1 as an oracle: its comparisons written a second time, in its own terms."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from math import ceil

from trainyard import quantity
from trainyard.settings.tenancy import QueueSettings

__all__ = ["refused"]

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
    """Return whether the webhook refuses any queue of the tree, in whatever order they are created."""
    for name, queue in queues.items():
        children = [child for child in queues.values() if child.parent == name]
        if own_refused(queue) or (children and parent_refused(queue, children)):
            return True
    return False
