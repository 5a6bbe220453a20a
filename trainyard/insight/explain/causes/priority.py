"""Causes in priority: jobs that are served first, and unknown priority classes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from trainyard.api.constants import SYSTEM_PRIORITY_CLASSES
from trainyard.cluster_state.body_fields import name_of, text
from trainyard.cluster_state.observed import Kind
from trainyard.insight.explain.cause import Cause, Family, Found
from trainyard.insight.explain.contention import is_contended
from trainyard.insight.explain.job_state import JobState

_SHOWN: Final = 3

BEHIND: Final = Cause(
    "priority-behind-others",
    "Other jobs of the queue are served first",
    "priority and age of the waiting gangs of the queue",
    "it is number {place} of {waiting} waiting jobs in queue {queue}, with priority {priority}; ahead are {ahead}",
    "wait, or use a priority class with a higher value than {highest} if the tenant has one",
    {
        **{"place": 3, "waiting": 4, "queue": "vision", "priority": 1000, "highest": 10000},
        "ahead": ["vision/urgent (priority 10000)", "vision/older (priority 1000)"],
    },
)
UNKNOWN_CLASS: Final = Cause(
    "priority-class-unknown",
    "Unknown priority class",
    "`priorityClassName` of the pods and of the PodGroup; the PriorityClasses",
    "priority class {name} does not exist, and the API server rejects pods with it",
    "use one of {classes}",
    {"name": "trainning", "classes": ["training", "training-urgent"]},
)


def _find(job_state: JobState) -> Iterator[Found]:
    if job_state.ended:
        return
    yield from _unknown(job_state)
    gang = job_state.gang
    if gang is None or not job_state.waits_for_room or not job_state.index.knows(Kind.POD_GROUP):
        return
    waiting = job_state.view.shares.waiting.get(gang.queue, [])
    place = next((number for number, job in enumerate(waiting) if job.name == gang.name), 0)
    ahead = waiting[:place]
    if ahead and is_contended(job_state, ahead):
        yield BEHIND.found(
            place=place + 1,
            waiting=len(waiting),
            queue=gang.queue,
            priority=gang.priority,
            highest=ahead[0].priority,
            ahead=[f"{job.name} (priority {job.priority})" for job in ahead[:_SHOWN]],
        )


def _unknown(job_state: JobState) -> Iterator[Found]:
    if not job_state.index.knows(Kind.PRIORITY_CLASS):
        return
    classes = {name_of(body) for body in job_state.index.of(Kind.PRIORITY_CLASS)}
    names = [text(job_state.pod_group, "spec", "priorityClassName")]
    names += [text(spec, "priorityClassName") for spec in job_state.pod_specs]
    names += [text(job_state.root, "spec", "priorityClassName")]
    for name in dict.fromkeys(filter(None, names)):
        if name not in classes and name not in SYSTEM_PRIORITY_CLASSES:
            known = sorted(each for each in classes if not each.startswith("system-"))
            yield UNKNOWN_CLASS.found(name=name, classes=known[:10] or ["none"])


FAMILY: Final = Family("Priority", 5, (BEHIND, UNKNOWN_CLASS), _find)
