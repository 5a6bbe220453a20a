"""Queue objects for a proved tree."""

from __future__ import annotations

from typing import Any

from trainyard.problem import TrainyardError
from trainyard.queues.checks import check_queues
from trainyard.queues.rules import Severity, severity
from trainyard.queues.tree import QueueTree
from trainyard.settings import StackSettings
from trainyard.settings.tenancy import QueueSettings

__all__ = ["queue_objects"]


def queue_objects(settings: StackSettings) -> list[dict[str, Any]]:
    """Return the Volcano Queues of a stack, parents before children.

    ``root`` and ``default`` are not among them: Volcano makes both. Each queue names its parent and its weight,
    because Volcano writes them where they are missing.

    Raises
    ------
    TrainyardError
        The tree would be refused or would stop the scheduler; every finding is listed.
    """
    problems = [problem for problem in check_queues(settings) if severity(problem) is Severity.ERROR]
    if problems:
        raise TrainyardError("The queue tree has faults", problems=problems)
    tree = QueueTree(settings.queues)
    return [_queue(name, settings.queues[name]) for name in tree.reachable]


def _queue(name: str, queue: QueueSettings) -> dict[str, Any]:
    spec: dict[str, Any] = {"parent": queue.parent, "weight": 1, "reclaimable": queue.reclaimable}
    if queue.priority:
        spec["priority"] = queue.priority
    if queue.deserved:
        spec["deserved"] = dict(queue.deserved)
    if queue.guarantee:
        spec["guarantee"] = {"resource": dict(queue.guarantee)}
    if queue.capability:
        spec["capability"] = dict(queue.capability)
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": spec,
    }
