"""Gangs in queues, counted as the scheduler counts them: from live or recorded PodGroups."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from trainyard.queues.amounts import Amounts, units
from trainyard.queues.queue import DEFAULT

__all__ = ["Job", "read_jobs"]

_DONE = frozenset({"Completed", "Succeeded", "Failed"})


@dataclass(frozen=True)
class Job:
    """One gang, in the scheduler's terms a job.

    Parameters
    ----------
    name
        Namespace and name.
    queue
        Its queue.
    request
        Its minimum resources, in units by resource.
    running
        Whether it has them already.
    priority
        A higher priority is served first and evicted last.
    created
        Time of creation; the older is served first and evicted last.
    """

    name: str
    queue: str
    request: Amounts
    running: bool
    priority: int = 0
    created: str = ""


def read_jobs(bodies: Iterable[Mapping[str, Any]]) -> list[Job]:
    """Return the gangs among Kubernetes objects, without finished ones.

    Parameters
    ----------
    bodies
        PodGroups, and PriorityClasses for the values of priorities; other kinds are ignored.
    """
    groups, priorities = list[Mapping[str, Any]](), dict[str, int]()
    for body in bodies:
        if body.get("kind") == "PriorityClass":
            priorities[body["metadata"]["name"]] = int(body.get("value", 0))
        elif body.get("kind") == "PodGroup":
            groups.append(body)
    jobs = [_job(group, priorities) for group in groups if _phase(group) not in _DONE]
    return sorted(jobs, key=lambda job: (job.created, job.name))


def _job(group: Mapping[str, Any], priorities: Mapping[str, int]) -> Job:
    metadata, spec = group["metadata"], group.get("spec") or {}
    return Job(
        name=f"{metadata.get('namespace') or 'default'}/{metadata['name']}",
        queue=spec.get("queue") or DEFAULT,
        request=units({name: str(amount) for name, amount in (spec.get("minResources") or {}).items()}),
        running=_phase(group) == "Running",
        priority=priorities.get(spec.get("priorityClassName") or "", 0),
        created=str(metadata.get("creationTimestamp") or ""),
    )


def _phase(group: Mapping[str, Any]) -> str:
    return str((group.get("status") or {}).get("phase") or "")
