"""Effect of a queue tree change on existing jobs, checked before any write.

Volcano silently deletes a queue with running jobs, and lets a queue with waiting jobs become a parent, which stops all
scheduling.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from trainyard.api.constants import ADOPTED_ANNOTATION
from trainyard.checks.finding import Finding
from trainyard.checks.report.text import counted, listed
from trainyard.scheduling.queues.queue import DEFAULT, ROOT

_SHOWN = 5
_PATH = "trainyard:queues"


def change_findings(
    live: Sequence[Mapping[str, Any]],
    desired: Mapping[str, Mapping[str, Any]],
    *,
    owned: Collection[str],
    retired: Collection[str],
    pod_groups: Sequence[Mapping[str, Any]],
) -> list[Finding]:
    """Find changes that harm jobs of a live queue tree.

    Parameters
    ----------
    live
        Live Queues.
    desired
        Desired specs, by queue.
    owned
        Names of the live queues that this stack created; others are ignored.
    retired
        Names of the queues that were retired before this change.
    pod_groups
        Every PodGroup of the cluster, in any phase.
    """
    queues = {queue["metadata"]["name"]: queue for queue in live}
    jobs = jobs_by_queue(pod_groups)
    findings: list[Finding] = []
    # Another run may have deleted one since the owned ones were listed.
    for name in sorted(set(owned) & set(queues) - set(desired) - {ROOT, DEFAULT}):
        findings += _removed(name, queues[name], name in retired, jobs.get(name, []), f"{_PATH}.{name}")
    for name in sorted(set(queues) & set(desired)):
        findings += _closing(name, queues[name], desired[name], jobs.get(name, []), f"{_PATH}.{name}")
    findings += _new_parents(queues, desired, jobs)
    return findings


def jobs_by_queue(pod_groups: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Return the names of the jobs of each queue with their phases, sorted."""
    jobs: defaultdict[str, list[str]] = defaultdict(list)
    for group in pod_groups:
        jobs[(group.get("spec") or {}).get("queue") or DEFAULT].append(_job(group))
    return {queue: sorted(names) for queue, names in jobs.items()}


def _removed(name: str, queue: Mapping[str, Any], retired: bool, jobs: list[str], path: str) -> Iterator[Finding]:
    rule = "queue-removed-in-use"
    if jobs:
        fix = f"keep {name} with state: retired: it accepts no new jobs, and `up` deletes it once they are done"
        yield Finding(path, f"queue {name!r} would be removed, but {describe_jobs(jobs)}", fix, rule)
    elif not retired or state_of(queue) != "Closed":
        message = f"queue {name!r} would be removed, but it is {_known(queue)}, so new jobs may be created in it"
        fix = f"mark it retired first: keep {name} with state: retired, run `up` until it is deleted, then remove it"
        yield Finding(path, message, fix, rule)
    elif is_taken_over(queue):
        message = (
            f"queue {name!r} would be removed, but it was taken over, and Pulumi would forget it and leave it closed"
        )
        yield Finding(path, message, f"keep {name} with state: retired until `up` has deleted it", rule)


def is_taken_over(queue: Mapping[str, Any]) -> bool:
    """Return whether the stack has taken over a queue: its state says that the queue is kept when it is deleted."""
    return bool((queue["metadata"].get("annotations") or {}).get(ADOPTED_ANNOTATION) == "true")


def _closing(
    name: str, queue: Mapping[str, Any], desired: Mapping[str, Any], jobs: list[str], path: str
) -> Iterator[Finding]:
    if state_of(queue) == "Closing" and _changes(queue.get("spec") or {}, desired):
        message = f"queue {name!r} is closing, and Volcano rejects changes until it is empty: {describe_jobs(jobs)}"
        yield Finding(path, message, "change it when it is closed, or delete these jobs", "queue-closing")


def _changes(live: Mapping[str, Any], desired: Mapping[str, Any]) -> bool:
    return any(live.get(key) != value for key, value in desired.items())


def _new_parents(
    queues: Mapping[str, Mapping[str, Any]],
    desired: Mapping[str, Mapping[str, Any]],
    jobs: Mapping[str, list[str]],
) -> Iterator[Finding]:
    leaves = set(queues) - {(queue.get("spec") or {}).get("parent") for queue in queues.values()} - {ROOT}
    for parent in sorted(leaves & {spec.get("parent") or ROOT for spec in desired.values()}):
        if jobs.get(parent):
            below = sorted(name for name, spec in desired.items() if spec.get("parent") == parent)
            yield Finding(
                f"{_PATH}.{below[0]}.parent",
                f"queue {parent!r} would get child queues ({', '.join(below)}), but {describe_jobs(jobs[parent])}; "
                "one gang in it would stop scheduling for every tenant",
                f"add a new parent instead, or close {parent} until it is empty",
                "queue-parent-in-use",
            )


def _known(queue: Mapping[str, Any]) -> str:
    return {"Closed": "closed, not retired", "Closing": "still closing"}.get(state_of(queue), "open")


def state_of(queue: Mapping[str, Any]) -> str:
    """Return the state that Volcano reports of a queue; empty if none."""
    return str((queue.get("status") or {}).get("state") or "")


def _job(group: Mapping[str, Any]) -> str:
    metadata = group["metadata"]
    phase = (group.get("status") or {}).get("phase") or "Pending"
    return f"{metadata.get('namespace', 'default')}/{metadata['name']} ({phase})"


def describe_jobs(jobs: Sequence[str]) -> str:
    """Return the number of jobs of a queue and the names of the first ones, in words."""
    if not jobs:
        return "it has no jobs"
    return f"it has {counted(len(jobs), 'job')}: {listed(jobs, _SHOWN)}"
