"""Retired queues: those that can be deleted, and why the others stay.

Volcano deletes a queue in any state, and silently its jobs with it, but none with child queues. So a retired queue is
deleted when it is closed by the settings, has no jobs, and each of its child queues is deleted too. One that the stack
has taken over is kept by the engine until an `up` has changed that in the state.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from trainyard.queues.change_effects import describe_jobs, is_taken_over, jobs_by_queue, state_of

__all__ = ["QueueRetirement", "queue_retirement"]


@dataclass(frozen=True)
class QueueRetirement:
    """The retired queues of a stack.

    Parameters
    ----------
    removed
        Queues that are deleted, or do not exist.
    waiting
        Why each of the others cannot be deleted yet, by queue.
    """

    removed: frozenset[str] = frozenset()
    waiting: Mapping[str, str] = field(default_factory=dict)


def queue_retirement(
    retired: Collection[str],
    parents: Mapping[str, str],
    live: Sequence[Mapping[str, Any]],
    *,
    owned: Collection[str],
    closed: Collection[str],
    pod_groups: Sequence[Mapping[str, Any]],
) -> QueueRetirement:
    """Decide which retired queues are deleted.

    Parameters
    ----------
    retired
        Names of the queues with ``state: retired``.
    parents
        Parent of each queue of the settings.
    live
        Live Queues.
    owned
        Names of the live queues of this stack.
    closed
        Names of the queues that the controller keeps closed since an earlier `up`.
    pod_groups
        Every PodGroup of the cluster, in any phase.
    """
    jobs = jobs_by_queue(pod_groups)
    found = {queue["metadata"]["name"]: queue for queue in live if queue["metadata"]["name"] in owned}
    waiting: dict[str, str] = {}
    for name in sorted(set(retired) & set(found)):
        if jobs.get(name):
            waiting[name] = describe_jobs(jobs[name])
        elif (state := state_of(found[name])) != "Closed":
            waiting[name] = "it is closing" if state == "Closing" else "it is open, and this `up` closes it"
        elif name not in closed:
            waiting[name] = "it was closed by hand, and can be opened again until this `up` keeps it closed"
        elif is_taken_over(found[name]):
            kept = "it was taken over, and the state says that it is kept"
            waiting[name] = f"{kept}: this `up` changes that, and the next one deletes it"
    others = [queue for queue in live if queue["metadata"]["name"] not in {*parents, *owned}]
    above = {queue["metadata"]["name"]: str((queue.get("spec") or {}).get("parent")) for queue in others}
    edges = {*parents.items(), *above.items()}
    while blocked := _blocked(set(retired) - set(waiting), edges):
        waiting |= {
            parent: f"its child queues ({', '.join(children)}) are not deleted yet"
            for parent, children in blocked.items()
        }
    return QueueRetirement(frozenset(set(retired) - set(waiting)), waiting)


def _blocked(removed: Collection[str], edges: Collection[tuple[str, str]]) -> dict[str, list[str]]:
    """Return the child queues that stay, of each queue that would be removed."""
    return {
        name: staying
        for name in sorted(removed)
        if (staying := sorted({child for child, parent in edges if parent == name and child not in removed}))
    }
