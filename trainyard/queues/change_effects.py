"""Effect of a queue tree change on existing jobs, checked before any write.

Volcano deletes a queue with running jobs without a word, and lets a queue with waiting jobs become a parent, after
which nothing is scheduled for anybody.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from trainyard.checks.finding import Finding
from trainyard.queues.tree import DEFAULT, ROOT

__all__ = ["change_findings"]

_SHOWN = 5


def change_findings(
    live: Sequence[Mapping[str, Any]],
    wanted: Mapping[str, Mapping[str, Any]],
    *,
    owned: Collection[str],
    retired: Collection[str],
    pod_groups: Sequence[Mapping[str, Any]],
    path: str = "trainyard:queues",
) -> list[Finding]:
    """Find what must not be done to a live queue tree.

    Parameters
    ----------
    live
        The Queues that exist.
    wanted
        Specs of the queues that there will be, by name.
    owned
        Names of the live queues that this stack made; others are left alone.
    retired
        Names of the queues that were retired before this change.
    pod_groups
        Every PodGroup of the cluster, of whatever phase.
    path
        Where the wanted queues are, the start of each problem's path.
    """
    queues = {queue["metadata"]["name"]: queue for queue in live}
    jobs: defaultdict[str, list[str]] = defaultdict(list)
    for group in pod_groups:
        jobs[(group.get("spec") or {}).get("queue") or DEFAULT].append(_job(group))
    findings: list[Finding] = []
    for name in sorted(set(owned) - set(wanted) - {ROOT, DEFAULT}):
        findings += _removed(name, queues[name], name in retired, sorted(jobs[name]), f"{path}.{name}")
    for name in sorted(set(queues) & set(wanted)):
        findings += _closing(name, queues[name], wanted[name], sorted(jobs[name]), f"{path}.{name}")
    findings += _new_parents(queues, wanted, jobs, path)
    return findings


def _removed(name: str, queue: Mapping[str, Any], retired: bool, jobs: list[str], path: str) -> Iterator[Finding]:
    rule = "queue-removed-in-use"
    if jobs:
        fix = f"keep {name} with state: closed until they are done, then state: retired, then remove it"
        yield Finding(path, f"queue {name!r} would be removed, but {_some(jobs)}", fix, rule)
    elif not retired or _state(queue) != "Closed":
        message = f"queue {name!r} would be removed, but it is {_known(queue)} and may get jobs at any moment"
        yield Finding(path, message, f"keep {name} with state: retired, `up`, then remove it", rule)


def _closing(
    name: str, queue: Mapping[str, Any], wanted: Mapping[str, Any], jobs: list[str], path: str
) -> Iterator[Finding]:
    if _state(queue) == "Closing" and _changes(queue.get("spec") or {}, wanted):
        message = f"queue {name!r} is closing, and Volcano refuses to change it until it is empty: {_some(jobs)}"
        yield Finding(path, message, "change it once it is closed, or end these jobs", "queue-closing")


def _changes(live: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    return any(live.get(key) != value for key, value in wanted.items())


def _new_parents(
    queues: Mapping[str, Mapping[str, Any]],
    wanted: Mapping[str, Mapping[str, Any]],
    jobs: Mapping[str, list[str]],
    path: str,
) -> Iterator[Finding]:
    leaves = set(queues) - {(queue.get("spec") or {}).get("parent") for queue in queues.values()} - {ROOT}
    for parent in sorted(leaves & {spec.get("parent") or ROOT for spec in wanted.values()}):
        if jobs.get(parent):
            below = sorted(name for name, spec in wanted.items() if spec.get("parent") == parent)
            yield Finding(
                f"{path}.{below[0]}.parent",
                f"queue {parent!r} would get queues below it ({', '.join(below)}), but {_some(sorted(jobs[parent]))}; "
                "with one gang in it nothing would be scheduled for anybody",
                f"add a new parent instead, or close {parent} until it is empty",
                "queue-parent-in-use",
            )


def _known(queue: Mapping[str, Any]) -> str:
    return {"Closed": "closed, not retired", "Closing": "still closing"}.get(_state(queue), "open")


def _state(queue: Mapping[str, Any]) -> str:
    return str((queue.get("status") or {}).get("state") or "")


def _job(group: Mapping[str, Any]) -> str:
    metadata = group["metadata"]
    phase = (group.get("status") or {}).get("phase") or "Pending"
    return f"{metadata.get('namespace', 'default')}/{metadata['name']} ({phase})"


def _some(jobs: Sequence[str]) -> str:
    if not jobs:
        return "no jobs are in it"
    more = f" and {len(jobs) - _SHOWN} more" if len(jobs) > _SHOWN else ""
    count = "1 job is" if len(jobs) == 1 else f"{len(jobs)} jobs are"
    return f"{count} in it: {', '.join(jobs[:_SHOWN])}{more}"
