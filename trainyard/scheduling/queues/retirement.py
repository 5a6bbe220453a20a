"""Retired queues: those that one `up` deletes, what it does before, and why the others stay.

Volcano deletes a queue in any state, and silently its jobs with it, but none with child queues. So a retired queue is
deleted when it has no jobs and each of its child queues is deleted too; one that accepts jobs is closed before. The
engine keeps a queue that the stack has taken over, because its state says so: such a queue is deleted directly.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from trainyard.scheduling.queues.change_effects import describe_jobs, is_taken_over, jobs_by_queue, state_of


@dataclass(frozen=True)
class QueueRetirement:
    """The retired queues of a stack.

    Parameters
    ----------
    removed
        Queues that are deleted, or do not exist.
    waiting
        Why each of the others cannot be deleted yet, by queue.
    closing
        Those of the removed queues that are first to be closed by the controller.
    directly
        Those of the removed queues that are deleted before the engine runs, in this order.
    """

    removed: frozenset[str] = frozenset()
    waiting: Mapping[str, str] = field(default_factory=dict)
    closing: frozenset[str] = frozenset()
    directly: tuple[str, ...] = ()


def queue_retirement(
    retired: Collection[str],
    parents: Mapping[str, str],
    live: Sequence[Mapping[str, Any]],
    *,
    owned: Collection[str],
    closed: Collection[str],
    pod_groups: Sequence[Mapping[str, Any]],
    terminating: Collection[str] = (),
    held: str | None = None,
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
    terminating
        Namespaces that the same `up` deletes with their jobs, before the queues.
    held
        Why this run may neither close nor delete a queue before the engine runs; None: it may.
    """
    jobs = jobs_by_queue(pod_groups)
    staying = jobs_by_queue([group for group in pod_groups if group["metadata"].get("namespace") not in terminating])
    found = {queue["metadata"]["name"]: queue for queue in live if queue["metadata"]["name"] in owned}
    existing = sorted(set(retired) & set(found))
    taken = {name for name in existing if is_taken_over(found[name])}
    open_ones = {name for name in existing if state_of(found[name]) != "Closed" or name not in closed}
    below = _children(live)

    def goes_later(child: str, parent: str) -> bool:
        return child in {*parents, *owned} and (child not in retired or parents[child] != parent)

    waiting: dict[str, str] = {}
    for name in existing:
        if staying.get(name):
            waiting[name] = describe_jobs(staying[name])
        elif held and name in taken | open_ones:
            waiting[name] = held
        elif name in taken and jobs.get(name):
            waiting[name] = _later("deletes the namespaces of its jobs")
        elif name in taken and (later := [each for each in below.get(name, ()) if goes_later(each, name)]):
            waiting[name] = _later(f"moves or deletes its child queues ({', '.join(later)})")
    others = [queue for queue in live if queue["metadata"]["name"] not in {*parents, *owned}]
    edges = {*parents.items(), *((queue["metadata"]["name"], _parent(queue)) for queue in others)}
    while blocked := _blocked(set(retired) - set(waiting), edges):
        waiting |= {
            parent: f"its child queues ({', '.join(children)}) are not deleted yet"
            for parent, children in blocked.items()
        }
    removed = frozenset(set(retired) - set(waiting))
    directly = dict.fromkeys(each for name in sorted(taken & removed) for each in _leaf_first(name, below))
    return QueueRetirement(removed, waiting, removed & open_ones, tuple(each for each in directly if each in removed))


def _later(first: str) -> str:
    return f"it was taken over, and this `up` first {first}: the next one deletes it"


def _parent(queue: Mapping[str, Any]) -> str:
    return str((queue.get("spec") or {}).get("parent"))


def _children(live: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Return the names of the child queues of each live queue that has some."""
    found: dict[str, list[str]] = {}
    for queue in live:
        found.setdefault(_parent(queue), []).append(queue["metadata"]["name"])
    return {parent: sorted(children) for parent, children in found.items()}


def _leaf_first(name: str, below: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the queues below a queue, each after its own child queues, and the queue last."""
    return [*(each for child in below.get(name, ()) for each in _leaf_first(child, below)), name]


def _blocked(removed: Collection[str], edges: Collection[tuple[str, str]]) -> dict[str, list[str]]:
    """Return the child queues that stay, of each queue that would be removed."""
    return {
        name: staying
        for name in sorted(removed)
        if (staying := sorted({child for child, parent in edges if parent == name and child not in removed}))
    }
