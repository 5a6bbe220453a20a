"""What Volcano's admission webhook refuses.

Upstream source: ``pkg/webhooks/admission/queues/validate/validate_queue.go`` of Volcano 1.14.1: own values first, then
capability against the direct parent, then the sums of siblings. Queues directly below root are never compared with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from trainyard.problem import Problem
from trainyard.queues.amounts import Amounts, Excess, excess, is_whole, text, total, units
from trainyard.queues.tree import QueueTree
from trainyard.settings.tenancy import QueueSettings

__all__ = ["admission_problems"]


def admission_problems(tree: QueueTree, path: str) -> list[Problem]:
    """Find what the webhook would refuse in any order of creation.

    Parameters
    ----------
    tree
        The queues.
    path
        Where they are, the start of each problem's path.
    """
    problems: list[Problem] = []
    for name in sorted(tree.queues):
        queue = tree.queues[name]
        problems += _own(name, queue, f"{path}.{name}")
        parent = tree.queues.get(queue.parent)
        if parent is not None:
            problems += _against_parent(name, queue, parent, f"{path}.{name}")
        children = {child: tree.queues[child] for child in tree.children(name)}
        if children:
            problems += _sums(name, queue, children, f"{path}.{name}")
    return problems


def _own(name: str, queue: QueueSettings, path: str) -> Iterator[Problem]:
    for kind in ("deserved", "guarantee", "capability"):
        for resource, amount in sorted(getattr(queue, kind).items()):
            if not is_whole(resource, amount):
                message = f"queue {name!r}: {kind} of {resource} is {amount}, but {resource} comes in whole pieces"
                yield Problem(f"{path}.{kind}[{resource}]", message, "use a whole number", "queue-resource-fraction")
    deserved, guarantee, capability = (units(part) for part in (queue.deserved, queue.guarantee, queue.capability))
    if queue.capability:
        yield from _pairs(name, "deserved", deserved, "capability", capability, path)
        yield from _pairs(name, "guarantee", guarantee, "capability", capability, path)
    if queue.guarantee:
        yield from _pairs(name, "guarantee", guarantee, "deserved", deserved, path)


def _pairs(name: str, kind: str, lower: Amounts, bound: str, upper: Amounts, path: str) -> Iterator[Problem]:
    for found in excess(upper, lower):
        yield Problem(
            f"{path}.{kind}[{found.resource}]",
            f"queue {name!r}: {kind} of {found.resource} is {text(found.resource, found.want)}, "
            f"{_above(found, f'its {bound}')}",
            _fix(found, f"{bound} of {name}", kind),
            f"queue-{kind}-{bound}",
        )


def _against_parent(name: str, queue: QueueSettings, parent: QueueSettings, path: str) -> Iterator[Problem]:
    for found in excess(units(parent.capability), units(queue.capability)):
        above = _above(found, f"the capability of its parent {queue.parent!r}")
        yield Problem(
            f"{path}.capability[{found.resource}]",
            f"queue {name!r}: capability of {found.resource} is {text(found.resource, found.want)}, {above}",
            _fix(found, f"capability of {queue.parent}", "capability"),
            "queue-capability-parent",
        )


def _sums(name: str, queue: QueueSettings, children: Mapping[str, QueueSettings], path: str) -> Iterator[Problem]:
    for kind in ("deserved", "guarantee"):
        bound = kind if getattr(queue, kind) else "capability"
        limit = getattr(queue, bound)
        if not limit:
            continue
        shares = {child: units(getattr(settings, kind)) for child, settings in children.items()}
        for found in excess(units(limit), total(shares.values())):
            parts = " + ".join(
                f"{text(found.resource, share[found.resource])} ({child})"
                for child, share in shares.items()
                if found.resource in share
            )
            yield Problem(
                f"{path}.{bound}[{found.resource}]",
                f"queue {name!r}: the queues below it have {kind} {parts} = {text(found.resource, found.want)} of "
                f"{found.resource}, {_above(found, f'its {bound}')}",
                _fix(found, f"{bound} of {name}", f"{kind} below it"),
                f"queue-{kind}-sum",
            )


def _above(found: Excess, bound: str) -> str:
    if found.have is None:
        return f"but {bound} does not name {found.resource}, which counts as none"
    return f"more than {bound} of {text(found.resource, found.have)}"


def _fix(found: Excess, bound: str, kind: str) -> str:
    if found.have is None:
        return f"add {found.resource} {text(found.resource, found.want)} to the {bound}, or remove it from {kind}"
    return f"raise the {bound} to {text(found.resource, found.want)} or lower the {kind}"
