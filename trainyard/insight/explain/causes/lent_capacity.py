"""Causes in shares: a full cluster, and whether the queue of the job can take back what it deserves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from trainyard.cluster_state.body_fields import mapping, namespace_of, text
from trainyard.cluster_state.observed import Kind
from trainyard.insight.explain.cause import Cause, Family, Found
from trainyard.insight.explain.job_state import JobState
from trainyard.insight.explain.lent_capacity import is_considered, leaving_pods, lenders, suffices, within_share
from trainyard.insight.explain.node_table import NodeFacts, placed, request_of
from trainyard.scheduling.queues.amounts import text as amount_text
from trainyard.scheduling.queues.amounts import total
from trainyard.scheduling.queues.queue import ROOT, Queue
from trainyard.scheduling.queues.queued_gangs import QueuedJob

_RECLAIM: Final = "reclaim"
_LISTED: Final = 5

LENT: Final = Cause(
    "share-lent-out",
    "Share lent out to other queues",
    "what each queue deserves and uses; pods that are being deleted",
    "queue {queue} uses {used} of the {deserved} {resource} that it deserves; the rest is lent to {lenders}, "
    "and the scheduler {progress} (pods being deleted: {leaving})",
    "wait: action reclaim evicts pods of {lenders}; this takes their grace period",
    {
        **{"queue": "language", "used": "0", "deserved": "32", "resource": "nvidia.com/gpu"},
        **{"lenders": ["vision (32 above its share)"], "leaving": 4},
        "progress": "takes it back since 2026-11-24T10:00:00Z",
    },
)
NO_RECLAIM_BY_JOB: Final = Cause(
    "share-not-claimed",
    "Job that takes nothing back",
    "`preemptionPolicy` of the pods and of their PriorityClass",
    "queue {queue} uses {used} of the {deserved} {resource} that it deserves and {lenders} borrow the rest, "
    "but the job takes nothing back: priority class {priority_class} has preemptionPolicy Never",
    "use a priority class that preempts, or wait until a job of {lenders} ends",
    {
        **{"queue": "language", "used": "0", "deserved": "32", "resource": "nvidia.com/gpu"},
        **{"lenders": ["vision (32 above its share)"], "priority_class": "training"},
    },
)
NOT_RECLAIMABLE: Final = Cause(
    "share-not-reclaimable",
    "Borrower that gives nothing back",
    "`spec.reclaimable` of the Queues, and the actions of the scheduler (Platform `spec.schedulerFeatures`)",
    "queue {queue} uses {used} of the {deserved} {resource} that it deserves, and {borrowers} use more than "
    "they deserve, but nothing is taken back: {reason}",
    "wait until a job of {borrowers} ends, or ask the platform team: {remedy}",
    {
        **{"queue": "language", "used": "0", "deserved": "32", "resource": "nvidia.com/gpu"},
        **{"borrowers": ["vision"], "reason": "queue vision is not reclaimable"},
        "remedy": "set reclaimable: true for vision",
    },
)
OVER_DESERVED: Final = Cause(
    "queue-over-deserved",
    "Queue beyond its share in a full cluster",
    "`spec.deserved` of the queue, what it uses, and what the nodes have free",
    "queue {queue} uses {used} of the {deserved} {resource} that it deserves; the job requests {requested}, more "
    "than is left of it, so it takes nothing back, and of {capacity} {resource} in the cluster {free} are free",
    "wait until {requested} {resource} are free ({users} use most), request fewer, "
    "or ask the platform team for a larger share",
    {
        **{"queue": "vision", "used": "32", "deserved": "32", "resource": "nvidia.com/gpu", "requested": "8"},
        **{"capacity": "64", "free": "0", "users": ["language (32)", "vision (32)"]},
    },
)
OVERCOMMITTED: Final = Cause(
    "nodes-overcommitted",
    "Nodes that offer less than their pods hold",
    "allocatable resources of the nodes, and the requests of their pods",
    "the job fits on free nodes and requests {requested} {resource}, but queues may use the {capacity} that all nodes "
    "offer, and pods hold {used}, more than is offered on {nodes}",
    "wait until a pod on {nodes} ends, or ask the platform team to repair these nodes or to drain them",
    {
        **{"used": "32", "requested": "32", "capacity": "63", "resource": "nvidia.com/gpu"},
        "nodes": ["rack-0-node-0"],
    },
)
FULL: Final = Cause(
    "cluster-full",
    "Full cluster",
    "allocatable resources of the nodes that the job may use, and the requests of their pods",
    "the job requests {requested} {resource}, and of {capacity} on the nodes that it may use {free} are free",
    "wait until other jobs end ({users} use most), or request fewer {resource}",
    {
        **{"requested": "16", "resource": "nvidia.com/gpu", "capacity": "64", "free": "8"},
        "users": ["vision (32)", "language (24)"],
    },
)


def _find(job_state: JobState) -> Iterator[Found]:
    table = job_state.view.table
    if not job_state.waits_for_room or not table.knows_free or not table.nodes:
        return
    nodes = _candidates(job_state)
    if placed(job_state.demands, nodes) >= job_state.members:
        yield from _overcommitted(job_state)
        return
    gang, shares = job_state.gang, job_state.view.shares
    resource = _scarce(job_state, nodes)
    if gang is not None and gang.queue in shares.tree.queues and not shares.fault and _complete(job_state):
        yield from _share(job_state, gang, resource, nodes)
    if resource is not None:
        values = _room(job_state, resource, nodes)
        yield FULL.found(**values, users=_top(job_state, resource))


def _overcommitted(job_state: JobState) -> Iterator[Found]:
    """Yield a resource of which pods hold more than their nodes offer, such as broken devices: root counts both."""
    shares, request = job_state.view.shares, job_state.request
    if job_state.queue not in shares.tree.queues or shares.fault or not _complete(job_state):
        return
    for resource in sorted(request, key=lambda name: ("/" not in name, name)):
        short = [node.name for node in job_state.view.table.nodes.values() if node.free.get(resource, 0) < 0]
        capacity = (shares.snapshot.capacity or {}).get(resource, 0)
        amounts = {"used": shares.used(ROOT).get(resource, 0), "requested": request[resource], "capacity": capacity}
        if short and request[resource] and amounts["used"] + amounts["requested"] > capacity:
            texts = {name: amount_text(resource, amount) for name, amount in amounts.items()}
            yield OVERCOMMITTED.found(resource=resource, nodes=short[:_LISTED], **texts)
            return


def _complete(job_state: JobState) -> bool:
    return all(job_state.index.knows(kind) for kind in (Kind.QUEUE, Kind.POD_GROUP, Kind.POD))


def _candidates(job_state: JobState) -> list[NodeFacts]:
    names: dict[str, NodeFacts] = {}
    for demand in job_state.demands:
        names |= {node.name: node for node in job_state.view.table.allowed_nodes(demand.spec) if node.usable}
    return list(names.values())


def _scarce(job_state: JobState, nodes: list[NodeFacts]) -> str | None:
    """Return the resource whose free amounts are too small in sum, devices first, or None if they suffice."""
    request = job_state.request
    free = total({name: max(0, node.free.get(name, 0)) for name in request} for node in nodes)
    short = [name for name, amount in request.items() if amount > free.get(name, 0)]
    return min(short, key=lambda name: ("/" not in name, name)) if short else None


def _room(job_state: JobState, resource: str, nodes: list[NodeFacts]) -> dict[str, Any]:
    free = sum(max(0, node.free.get(resource, 0)) for node in nodes)
    capacity = sum(node.offers.get(resource, 0) for node in nodes)
    amounts = {"requested": job_state.request.get(resource, 0), "capacity": capacity, "free": free}
    return {"resource": resource, **{name: amount_text(resource, amount) for name, amount in amounts.items()}}


def _share(job_state: JobState, gang: QueuedJob, scarce: str | None, nodes: list[NodeFacts]) -> Iterator[Found]:
    shares, request = job_state.view.shares, job_state.demands[0].request
    deserved, used = shares.tree.queues[gang.queue].amounts("deserved"), shares.used(gang.queue)
    named = [name for name, amount in request.items() if amount and deserved.get(name)]
    resource = min(named or [scarce or min(request, default="cpu")], key=lambda name: ("/" not in name, name))
    values: dict[str, Any] = {
        "queue": gang.queue,
        "resource": resource,
        "used": amount_text(resource, used.get(resource, 0)),
        "deserved": amount_text(resource, deserved.get(resource, 0)),
    }
    if not within_share(job_state, gang):
        if scarce is not None:
            room = _room(job_state, resource, nodes)
            yield OVER_DESERVED.found(**{**values, **room}, users=_top(job_state, resource))
        return
    if not is_considered(job_state):
        return
    features = job_state.index.features
    off = bool(features) and _RECLAIM not in (features or ())
    giving = lenders(job_state, gang, resource)
    borrowers = _borrowers(job_state, gang, resource)
    if giving and not off:
        if not suffices(job_state, gang, resource, nodes):
            return
        texts = [_above(job_state, name, resource) for name in giving][:_LISTED]
        if gang.preempts:
            times = [text(pod, "metadata", "deletionTimestamp") for pod in leaving_pods(job_state, giving)]
            progress = f"takes it back since {min(times)}" if times else "may take it back"
            yield LENT.found(**values, lenders=texts, progress=progress, leaving=len(times))
        else:
            yield NO_RECLAIM_BY_JOB.found(**values, lenders=texts, priority_class=_priority_class(job_state))
    elif borrowers:
        if off:
            reason, remedy = "action reclaim of the scheduler is off", "add action reclaim to the scheduler's settings"
        else:
            fixed = [name for name in borrowers if not shares.tree.queues.get(name, Queue()).reclaimable]
            if not fixed:
                return
            reason = f"queue {', '.join(fixed)} is not reclaimable"
            remedy = f"set reclaimable: true for {', '.join(fixed)}"
        yield NOT_RECLAIMABLE.found(**values, borrowers=borrowers, reason=reason, remedy=remedy)


def _above(job_state: JobState, queue: str, resource: str) -> str:
    """Return a queue that gives back, with what it uses above its share."""
    reclaimable = job_state.view.shares.usage[queue].reclaimable
    if amount := reclaimable.get(resource):
        return f"{queue} ({amount_text(resource, amount)} above its share)"
    return f"{queue} (above its share of {', '.join(sorted(reclaimable)) or 'none'})"


def _borrowers(job_state: JobState, gang: QueuedJob, resource: str) -> list[str]:
    """Return the leaf queues that use more than they deserve."""
    shares = job_state.view.shares
    return [
        each.queue
        for each in shares.usage.values()
        if each.queue not in (ROOT, gang.queue)
        and not shares.tree.children(each.queue)
        and each.used.get(resource, 0) > each.deserved.get(resource, 0)
    ]


def _priority_class(job_state: JobState) -> str:
    names = (text(spec, "priorityClassName") for spec in job_state.pod_specs)
    return next(filter(None, (text(job_state.pod_group, "spec", "priorityClassName"), *names)), "none")


def _top(job_state: JobState, resource: str) -> list[str]:
    """Return the queues, or namespaces where queues are unknown, that use most of a resource."""
    shares = job_state.view.shares
    used: dict[str, int] = {}
    if job_state.index.knows(Kind.QUEUE) and not shares.fault:
        leaves = (each for each in shares.usage.values() if each.queue != ROOT and not shares.tree.children(each.queue))
        used = {each.queue: each.used.get(resource, 0) for each in leaves}
    if not any(used.values()):
        for pod in job_state.index.unfinished_pods:
            spec = mapping(pod, "spec")
            if text(spec, "nodeName") and (amount := request_of(spec).get(resource, 0)):
                used[namespace_of(pod)] = used.get(namespace_of(pod), 0) + amount
    most = sorted(((amount, name) for name, amount in used.items() if amount), key=lambda each: (-each[0], each[1]))
    return [f"{name} ({amount_text(resource, amount)})" for amount, name in most[:3]] or ["no visible job"]


FAMILY: Final = Family(
    "Shares", 2, (LENT, NO_RECLAIM_BY_JOB, NOT_RECLAIMABLE, OVER_DESERVED, OVERCOMMITTED, FULL), _find
)
