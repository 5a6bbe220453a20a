"""Causes in the queue tree: a queue that does not serve the job, and limits of the queues above it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from trainyard.cluster_state.body_fields import name_of, namespace_of, text
from trainyard.cluster_state.observed import Kind
from trainyard.insight.explain.cause import Cause, Family, Found
from trainyard.insight.explain.job_state import ExplainedState, JobState
from trainyard.insight.explain.lent_capacity import is_considered, lenders, within_share
from trainyard.scheduling.queues.amounts import text as amount_text
from trainyard.scheduling.queues.effective_limits import bounds
from trainyard.scheduling.queues.queue import DEFAULT, ROOT

MISSING: Final = Cause(
    "queue-missing",
    "Missing queue",
    "`spec.queue` of the PodGroup, or the queue annotation; the Queues",
    "queue {queue} does not exist, and Volcano ignores jobs of unknown queues",
    "use one of {queues}, or ask the platform team to add queue {queue}",
    {"queue": "reserch", "queues": ["language", "vision"]},
)
CLOSED: Final = Cause(
    "queue-closed",
    "Closed queue",
    "`status.state` of the Queue",
    "queue {queue} is {state}: it starts no jobs until it is open",
    "submit the job to another queue, or ask the platform team to open {queue} (`state: open` in its settings)",
    {"queue": "vision", "state": "closed"},
)
NOT_LEAF: Final = Cause(
    "queue-not-leaf",
    "Queue with child queues",
    "`spec.parent` of the Queues, with a scheduler that reads the tree",
    "queue {queue} has the child queues {children}; one job in such a queue stops scheduling for every tenant",
    "delete the job now, and submit it to one of {children}",
    {"queue": "research", "children": ["language", "vision"]},
)
TREE_STOPPED: Final = Cause(
    "queue-tree-stopped",
    "Scheduling stopped by another job or queue",
    "`spec.queue` of all PodGroups, and `spec.parent` of all Queues",
    "Volcano schedules nothing in any queue: {reason}",
    "{remedy}",
    {
        "reason": "PodGroup language/probe is in queue research, which has child queues",
        "remedy": "delete PodGroup language/probe",
    },
)
TREE_UNKNOWN: Final = Cause(
    "queue-tree-unknown",
    "Job in a queue with child queues, and a scheduler that may read the tree",
    "`spec.queue` of the PodGroups, and `spec.parent` of the Queues; Platform `spec.schedulerFeatures` is unknown",
    "{group} is in queue {queue}, which has child queues; if the scheduler reads the tree of queues (plug-in capacity "
    "with enableHierarchy), it schedules nothing in any queue",
    "ask the platform team whether it does; if so, the job has to use one of {children}",
    {"group": "PodGroup language/probe", "queue": "research", "children": ["language", "vision"]},
)
OVER_CAPABILITY: Final = Cause(
    "queue-over-capability",
    "Gang larger than a queue's limit",
    "minimum of the gang; `spec.capability` of its queue and of those above, without guarantees of their siblings",
    "its gang of {pods:pod} requests {requested} {resource}, and queue {limited_by} allows {limit} in total, "
    "so it never starts",
    "{smaller}, or ask the platform team for a higher capability of {limited_by}",
    {
        "smaller": "request at most 8 nvidia.com/gpu",
        "pods": 4,
        "requested": "32",
        "resource": "nvidia.com/gpu",
        "limited_by": "small",
        "limit": "8",
    },
)
CAPABILITY_FULL: Final = Cause(
    "queue-capability-full",
    "Queue at its capability",
    "`spec.capability` of the queue, and the requests of its placed pods",
    "queue {queue} uses {used} of the {limit} {resource} that its capability allows, and the job requests {requested}",
    "wait until a job of {queue} ends ({users}), or ask the platform team for a higher capability",
    {
        **{"queue": "small", "used": "8", "limit": "8", "resource": "nvidia.com/gpu", "requested": "8"},
        "users": ["small/train"],
    },
)
ANCESTOR_FULL: Final = Cause(
    "queue-ancestor-full",
    "Queue above it at its limit",
    "`spec.capability` of the queues above, and what all queues below them use",
    "queue {ancestor} above {queue} uses {used} of at most {limit} {resource}, and the job requests {requested}",
    "wait until a job below {ancestor} ends ({users}), or ask the platform team for a higher capability of {ancestor}",
    {
        **{"queue": "vision", "ancestor": "research", "used": "64", "limit": "64", "resource": "nvidia.com/gpu"},
        **{"requested": "8", "users": ["language/train"]},
    },
)
GUARANTEES: Final = Cause(
    "queue-guarantees-of-others",
    "Rest of the capacity guaranteed to other queues",
    "`spec.guarantee` of the siblings of the queue and of the queues above it",
    "the guarantees of {holders} leave {limit} {resource} for queue {queue}, which uses {used}; "
    "the job requests {requested}",
    "ask the platform team for a guarantee of {queue}, or for lower guarantees of {holders}",
    {
        **{"holders": ["vision"], "limit": "16", "resource": "nvidia.com/gpu", "queue": "language", "used": "16"},
        "requested": "8",
    },
)


_REFUSED_CLOSED: Final = re.compile(r"queue `([^`]+)` status is `(Clos[a-z]+)`")
_REFUSED_MISSING: Final = re.compile(
    r'unable to find (?:job )?queue: queues?\.scheduling\.volcano\.sh "([^"]+)" not found'
)


def _find(job_state: JobState) -> Iterator[Found]:
    index, queue = job_state.index, job_state.queue
    if job_state.state is ExplainedState.WAITING and not job_state.all_pods:
        yield from _refused(job_state)
    if job_state.ended or not queue or not index.knows(Kind.QUEUE):
        return
    shares = job_state.view.shares
    bodies = {name_of(body) for body in index.of(Kind.QUEUE)}
    if queue not in bodies and bodies:
        leaves = [name for name in shares.tree.leaves if name != DEFAULT or name in bodies]
        yield MISSING.found(queue=queue, queues=leaves)
        return
    if not job_state.waits_for_room and job_state.unplaced == [] and job_state.pods:
        return
    if shares.states.get(queue) in ("Closed", "Closing"):
        yield CLOSED.found(queue=queue, state=shares.states[queue].lower())
    children = shares.tree.children(queue) if queue != ROOT else sorted(shares.tree.queues)
    if shares.knows_tree and children:
        yield NOT_LEAF.found(queue=queue, children=children)
    if not job_state.waits_for_room:
        return
    yield from _stopped(job_state)
    if not shares.fault:
        yield from _limited(job_state)


def _refused(job_state: JobState) -> Iterator[Found]:
    """Yield why Volcano's webhook rejects the PodGroup, if that is the queue; what was corrected since is no cause."""
    shares, known = job_state.view.shares, job_state.index.knows(Kind.QUEUE)
    for body in (job_state.root, job_state.job_set, *job_state.jobs):
        for event in reversed(job_state.index.events(body) if body is not None else []):
            message = text(event, "message")
            if match := _REFUSED_CLOSED.search(message):
                state = shares.states.get(match[1], match[2]) if known else match[2]
                if state in ("Closed", "Closing"):
                    yield CLOSED.found(queue=match[1], state=state.lower())
                return
            if match := _REFUSED_MISSING.search(message):
                if match[1] not in shares.states:
                    yield MISSING.found(queue=match[1], queues=list(shares.tree.leaves))
                return


def _stopped(job_state: JobState) -> Iterator[Found]:
    shares = job_state.view.shares
    if not shares.has_tree:
        return
    if shares.fault:
        remedy = "ask the platform team to run `trainyard queues check` and to correct the parents of the queues"
        yield TREE_STOPPED.found(reason=shares.fault, remedy=remedy)
        return
    for body in job_state.index.of(Kind.POD_GROUP):
        queue = text(body, "spec", "queue")
        children = sorted(shares.tree.queues) if queue == ROOT else shares.tree.children(queue) if queue else []
        name = f"{namespace_of(body)}/{name_of(body)}"
        if children and not shares.knows_tree:
            yield TREE_UNKNOWN.found(group=f"PodGroup {name}", queue=queue, children=children)
            return
        if children and body is not job_state.pod_group:
            yield TREE_STOPPED.found(
                reason=f"PodGroup {name} is in queue {queue}, which has child queues",
                remedy=f"delete PodGroup {name}, or ask the platform team to do so",
            )
            return


def _limited(job_state: JobState) -> Iterator[Found]:
    """Yield the limit that stops the gang, if one does."""
    shares, queue, request = job_state.view.shares, job_state.queue, job_state.request
    caps = bounds(shares.tree)
    for name in shares.chain(queue):
        limit, used = shares.limits.get(name, {}), shares.used(name)
        for resource in sorted(request, key=lambda each: ("/" not in each, each)):
            amount, bound = request[resource], limit.get(resource)
            if not amount or bound is None or used.get(resource, 0) + amount <= bound:
                continue
            capability = caps.get(name, {}).get(resource)
            values = _values(resource, requested=amount, limit=bound, used=used.get(resource, 0))
            guarded = capability is None or capability > bound
            holders = _holders(job_state, name, resource)
            if bound >= (shares.snapshot.capacity or {}).get(resource, bound + 1):
                continue  # the nodes limit it
            if guarded and holders:
                yield GUARANTEES.found(queue=name, holders=holders, **values)
            elif guarded:
                continue  # the nodes limit a queue above it
            elif amount > bound:
                smaller = f"request at most {values['limit']} {resource}" if bound > 0 else "submit it to another queue"
                yield OVER_CAPABILITY.found(pods=job_state.members, limited_by=name, smaller=smaller, **values)
            elif _given_back(job_state, name, resource) >= used.get(resource, 0) + amount - bound:
                continue  # lenders below it make room
            else:
                users = _users(job_state, name)
                found: dict[str, Any] = {"queue": queue, "users": users, **values}
                yield CAPABILITY_FULL.found(**found) if name == queue else ANCESTOR_FULL.found(ancestor=name, **found)
            return


def _values(resource: str, **amounts: int) -> dict[str, str]:
    return {"resource": resource, **{name: amount_text(resource, amount) for name, amount in amounts.items()}}


def _holders(job_state: JobState, queue: str, resource: str) -> list[str]:
    """Return the siblings, of a queue or of those above it, with a guarantee."""
    tree = job_state.view.shares.tree
    found = []
    for name in job_state.view.shares.chain(queue):
        siblings = tree.children(tree.queues[name].parent)
        found += [each for each in siblings if each != name and tree.queues[each].amounts("guarantee").get(resource)]
    return found


def _given_back(job_state: JobState, queue: str, resource: str) -> int:
    """Return what lenders below a queue give back to the job; nothing if it may not take anything back."""
    gang = job_state.gang
    if gang is None or not gang.preempts or not is_considered(job_state) or not within_share(job_state, gang):
        return 0
    return sum(lenders(job_state, gang, resource, queue).values())


def _users(job_state: JobState, queue: str) -> list[str]:
    """Return the largest running gangs below a queue."""
    shares = job_state.view.shares
    running = [job for job in shares.jobs if job.running and queue in shares.chain(job.queue)]
    running.sort(key=lambda job: (-sum(v for k, v in job.request.items() if "/" in k), job.name))
    return [job.name for job in running[:3]] or ["none of them is visible"]


FAMILY: Final = Family(
    "Queues",
    1,
    (
        MISSING,
        CLOSED,
        NOT_LEAF,
        TREE_STOPPED,
        TREE_UNKNOWN,
        OVER_CAPABILITY,
        CAPABILITY_FULL,
        ANCESTOR_FULL,
        GUARANTEES,
    ),
    _find,
)
