"""Queue objects for a proved tree."""

from __future__ import annotations

from typing import Any

from trainyard.problem import TrainyardError
from trainyard.queues.checks import check_queues
from trainyard.queues.model import Queue
from trainyard.queues.rules import Severity
from trainyard.queues.scheduling import Scheduling
from trainyard.queues.shares import queue_tree
from trainyard.settings import StackSettings
from trainyard.settings.tenancy import NodeGroups

__all__ = ["queue_objects"]


def queue_objects(settings: StackSettings, *, scheduling: Scheduling | None = None) -> list[dict[str, Any]]:
    """Return the Volcano Queues of a stack, parents before children.

    ``root`` and ``default`` are not among them: Volcano makes both. Each queue names its parent and its weight,
    because Volcano writes them where they are missing.

    Parameters
    ----------
    settings
        The stack.
    scheduling
        The scheduler the tree is proved for; as for `check_queues`.

    Raises
    ------
    TrainyardError
        The tree would be refused or would stop the scheduler; every finding is listed.
    """
    findings = check_queues(settings, scheduling=scheduling)
    problems = [finding for finding in findings if finding.severity is Severity.ERROR]
    if problems:
        raise TrainyardError("The queue tree has faults", problems=problems)
    tree = queue_tree(settings)
    return [_queue(name, tree.queues[name]) for name in tree.reachable]


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
