"""Text form of the queue tree."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from trainyard.scheduling.queues.queue import DEFAULT, ROOT
from trainyard.scheduling.queues.tree import QueueTree
from trainyard.scheduling.queues.units import queue_tree
from trainyard.settings.stack import StackSettings
from trainyard.settings.tenancy import QueueState


def draw(settings: StackSettings) -> str:
    """Return the tree as text: one line per queue with its tenants and amounts, accelerators first."""
    tree = queue_tree(settings)
    tenants: dict[str, list[str]] = {}
    for tenant in sorted(settings.active_tenants):
        for queue in settings.active_tenants[tenant].queues:
            tenants.setdefault(queue, []).append(tenant)
    return "\n".join(
        [_root(tree, settings.accelerator_resources), *_lines(tree, ROOT, tenants, settings.accelerator_resources, "")]
    )


def _lines(
    tree: QueueTree, parent: str, tenants: Mapping[str, list[str]], accelerators: Sequence[str], indent: str
) -> Iterator[str]:
    names = tree.children(parent) + ([DEFAULT] if parent == ROOT and DEFAULT not in tree.queues else [])
    for name in names:
        last = name == names[-1]
        yield f"{indent}{'└─' if last else '├─'} {_title(tree, name, tenants, accelerators)}"
        if name in tree.queues:
            yield from _lines(tree, name, tenants, accelerators, indent + ("   " if last else "│  "))


def _root(tree: QueueTree, accelerators: Sequence[str]) -> str:
    return f"{ROOT}: each queue at most {bound}" if (bound := _amounts(tree.root.capability, accelerators)) else ROOT


def _title(tree: QueueTree, name: str, tenants: Mapping[str, list[str]], accelerators: Sequence[str]) -> str:
    if name not in tree.queues:
        return f"{name}: jobs without a queue"
    queue = tree.queues[name]
    amounts = {"guarantee": queue.guarantee, "deserved": queue.deserved, "capability": queue.capability}
    parts = [f"{kind} {_amounts(values, accelerators)}" for kind, values in amounts.items() if values]
    if not queue.reclaimable:
        parts.append("not reclaimable")
    if queue.state is not QueueState.OPEN:
        parts.append(queue.state.value)
    used = f" [{', '.join(tenants[name])}]" if name in tenants else ""
    return f"{name}{used}" + (f": {'; '.join(parts)}" if parts else "")


def _amounts(values: Mapping[str, str], accelerators: Sequence[str]) -> str:
    ordered = sorted(values, key=lambda resource: (resource not in accelerators, resource))
    return ", ".join(f"{resource} {values[resource]}" for resource in ordered)
