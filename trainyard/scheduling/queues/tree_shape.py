"""Checks of the edges and names of a queue tree, independent of amounts."""

from __future__ import annotations

from collections.abc import Iterator

from trainyard.checks.finding import Finding
from trainyard.scheduling.queues.amounts import counted
from trainyard.scheduling.queues.paths import Paths
from trainyard.scheduling.queues.queue import DEFAULT, KINDS, ROOT
from trainyard.scheduling.queues.rules import RULES
from trainyard.scheduling.queues.tree import QueueTree
from trainyard.settings.tenancy import QueueState


def shape_findings(tree: QueueTree, paths: Paths) -> Iterator[Finding]:
    """Find invalid edges: parents that do not exist or cannot be parents, and cycles."""
    for name in sorted(tree.queues):
        queue = tree.queues[name]
        path, parent = paths.of(name, "parent"), queue.parent
        if parent == DEFAULT:
            yield RULES.finding(
                path,
                f"queue {name!r} is a child of default: the first job without a queue would stop all scheduling",
                "use root or another queue as parent",
                "queue-parent-default",
                object=name,
            )
        elif parent == name:
            message = f"queue {name!r} is its own parent"
            yield RULES.finding(path, message, "use root or another queue", "queue-parent-self", object=name)
        elif parent != ROOT and parent not in tree.queues:
            message = f"the parent {parent!r} of queue {name!r} is not declared"
            fix = f"declare it or use one of {_some(sorted({ROOT, *tree.queues} - {name, DEFAULT}))}"
            yield RULES.finding(path, message, fix, "queue-parent-unknown", object=name)
        elif parent in tree.queues and QueueState.OPEN is queue.state is not tree.queues[parent].state:
            state = tree.queues[parent].state.value
            message = f"queue {name!r} is open, but its parent {parent!r} is {state}: Volcano closes it too"
            fix = f"move it to another parent, or write state: {state}"
            yield RULES.finding(paths.of(name, "state"), message, fix, "queue-state-parent", object=name)
    for cycle in tree.cycles():
        if len(cycle) > 1:
            message = f"queues form a cycle: {' → '.join((*cycle, cycle[0]))}; the scheduler would crash"
            fix = "give one of them a parent outside the cycle"
            yield RULES.finding(paths.of(cycle[0], "parent"), message, fix, "queue-cycle", object=cycle[0])


def name_findings(tree: QueueTree, paths: Paths) -> Iterator[Finding]:
    """Find resource names that Volcano ignores."""
    named = {resource for queue in tree.queues.values() for kind in KINDS for resource in queue.quantities(kind)}
    ignored = {resource for resource in named if not counted(resource)}
    for name in sorted(tree.queues) if ignored else ():
        queue = tree.queues[name]
        for kind in KINDS:
            for resource in queue.quantities(kind):
                if resource in ignored:
                    yield RULES.finding(
                        paths.of(name, kind, resource),
                        f"queue {name!r} sets resource {resource!r}, which Volcano ignores: it is not limited",
                        "use cpu, memory, pods, ephemeral-storage or a device with its domain, such as nvidia.com/gpu",
                        "queue-resource-name",
                        object=name,
                    )


def _some(names: list[str]) -> str:
    return ", ".join(names if len(names) <= 10 else [*names[:9], f"{len(names) - 9} more"])
