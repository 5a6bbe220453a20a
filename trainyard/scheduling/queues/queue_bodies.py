"""Queue objects of a checked tree: those that a stack owns, and its patches of Volcano's own two."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from trainyard.checks.finding import Severity
from trainyard.errors import TrainyardError
from trainyard.scheduling.queues.builtin_queues import RESERVED, declared_fields
from trainyard.scheduling.queues.queue import Queue
from trainyard.scheduling.queues.scheduling import Scheduling
from trainyard.scheduling.queues.tree import QueueTree
from trainyard.scheduling.queues.tree_checks import check_queues
from trainyard.scheduling.queues.units import queue_tree
from trainyard.settings.stack import StackSettings
from trainyard.settings.tenancy import NodeGroups


@dataclass(frozen=True)
class QueueObjects:
    """The checked queues of a stack.

    Parameters
    ----------
    own
        Queues that the stack creates, parents before children. Parent and weight are always set, because Volcano
        writes them if they are unset.
    patches
        Patches of ``root`` and ``default``, as far as the stack sets their fields.
    """

    own: tuple[dict[str, Any], ...] = ()
    patches: tuple[dict[str, Any], ...] = ()

    @property
    def all(self) -> tuple[dict[str, Any], ...]:
        """Both."""
        return (*self.own, *self.patches)


def queue_objects(settings: StackSettings, *, scheduling: Scheduling | None = None) -> list[dict[str, Any]]:
    """Return the Queues that a stack creates, parents before children; parameters and errors as for `prove_queues`."""
    return list(prove_queues(settings, scheduling=scheduling).own)


def prove_queues(settings: StackSettings, *, scheduling: Scheduling | None = None) -> QueueObjects:
    """Return the queues of a stack, if they have no errors.

    Parameters
    ----------
    settings
        The stack.
    scheduling
        The scheduler that the tree is checked for; as for `check_queues`.

    Raises
    ------
    TrainyardError
        Volcano would reject the tree, or its scheduler would stop; every finding is listed.
    """
    findings = check_queues(settings, scheduling=scheduling)
    errors = [finding for finding in findings if finding.severity is Severity.ERROR]
    if errors:
        raise TrainyardError("The queue tree is invalid", findings=errors)
    tree = queue_tree(settings)
    own = tuple(_queue(name, tree.queues[name]) for name in tree.reachable if name not in RESERVED)
    return QueueObjects(own, tuple(_patches(settings, tree)))


def _patches(settings: StackSettings, tree: QueueTree) -> Iterator[dict[str, Any]]:
    for name in RESERVED:
        if (declared := settings.queues.get(name)) is not None:
            whole = _queue(name, tree.queues.get(name, tree.root))
            fields = declared_fields(name, declared)
            spec = {field: value for field, value in whole["spec"].items() if field in fields}
            if spec:
                yield {**whole, "spec": spec}


def _queue(name: str, queue: Queue) -> dict[str, Any]:
    spec: dict[str, Any] = {"parent": queue.parent, "weight": queue.weight, "reclaimable": queue.reclaimable}
    if queue.priority:
        spec["priority"] = queue.priority
    if queue.deserved:
        spec["deserved"] = dict(queue.deserved)
    if queue.guarantee:
        spec["guarantee"] = {"resource": dict(queue.guarantee)}
    if queue.capability:
        spec["capability"] = dict(queue.capability)
    if queue.type is not None:
        spec["type"] = queue.type
    if queue.affinity is not None:
        groups = {
            "nodeGroupAffinity": _groups(queue.affinity.node_group_affinity),
            "nodeGroupAntiAffinity": _groups(queue.affinity.node_group_anti_affinity),
        }
        spec["affinity"] = {field: value for field, value in groups.items() if value}
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": spec,
    }


def _groups(groups: NodeGroups) -> dict[str, list[str]]:
    fields = {
        "requiredDuringSchedulingIgnoredDuringExecution": list(groups.required),
        "preferredDuringSchedulingIgnoredDuringExecution": list(groups.preferred),
    }
    return {field: names for field, names in fields.items() if names}
