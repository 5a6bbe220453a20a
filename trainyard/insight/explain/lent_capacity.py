"""Action reclaim of the scheduler: which queues give back what for a gang that waits, and whether this suffices."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from trainyard.cluster_state.body_fields import Body, mapping, text
from trainyard.insight.explain.job_state import JobState
from trainyard.insight.explain.node_table import NodeFacts, request_of
from trainyard.scheduling.queues.amounts import Amounts
from trainyard.scheduling.queues.queue import ROOT, Queue
from trainyard.scheduling.queues.queued_gangs import QueuedJob

_ENQUEUE: Final = "enqueue"


def is_considered(job_state: JobState) -> bool:
    """Return whether the action looks at the gang: with action enqueue, not before its minimum is admitted."""
    group = job_state.pod_group
    pending = text(group, "status", "phase") in ("", "Pending")
    waits = pending and bool(mapping(group, "spec", "minResources"))
    return not waits or _ENQUEUE not in (job_state.index.features or ())


def within_share(job_state: JobState, gang: QueuedJob) -> bool:
    """Return whether the queue of a gang may take back resources for each of its pods, one after another.

    Each pod that found a place counts for the next one; each needs one resource within what the queue deserves.
    """
    shares = job_state.view.shares
    deserved = shares.tree.queues.get(gang.queue, Queue()).amounts("deserved")
    used = dict(shares.used(gang.queue))
    for demand in job_state.demands:
        last = {name: used.get(name, 0) + amount * demand.count for name, amount in demand.request.items() if amount}
        if not any(amount <= deserved.get(name, 0) for name, amount in last.items()):
            return False
        used |= last
    return bool(job_state.demands)


def lenders(job_state: JobState, gang: QueuedJob, resource: str, within: str = ROOT) -> dict[str, int]:
    """Return the units of a resource that other queues give back, by queue below another one, most first."""
    shares = job_state.view.shares
    running: dict[str, list[QueuedJob]] = {}
    for job in shares.jobs:
        if job.queue != gang.queue:
            running.setdefault(job.queue, []).append(job)
    found: dict[str, int] = {}
    for each in shares.usage.values():
        leaf = each.queue != ROOT and not shares.tree.children(each.queue)
        if leaf and each.lends and each.queue in running and (within == ROOT or within in shares.chain(each.queue)):
            victims = _victims(running[each.queue], each.used, each.deserved, each.guarantee, resource)
            if amount := sum(request.get(resource, 0) for request in victims):
                found[each.queue] = amount
    return dict(sorted(found.items(), key=lambda pair: (-pair[1], pair[0])))


def suffices(job_state: JobState, gang: QueuedJob, resource: str, nodes: list[NodeFacts]) -> bool:
    """Return whether what lenders give back suffices, with what is free or becomes free on their nodes.

    On a node without a pod to evict, the action places nothing.
    """
    giving = lenders(job_state, gang, resource)
    shares, table = job_state.view.shares, job_state.view.table
    groups = {job.name for job in shares.jobs if job.queue in giving}
    free = 0
    for node in nodes:
        held = [pod for pod in table.holders.get(node.name, ()) if job_state.index.gang_of(pod) in groups]
        if held:
            free += max(0, node.free.get(resource, 0))
    leaving = sum(request_of(mapping(pod, "spec")).get(resource, 0) for pod in leaving_pods(job_state, giving))
    return sum(giving.values()) + free + leaving >= job_state.request.get(resource, 0)


def leaving_pods(job_state: JobState, queues: dict[str, int]) -> list[Body]:
    """Return the pods of queues that are being deleted."""
    groups = {job.name for job in job_state.view.shares.jobs if job.queue in queues}
    return [
        pod
        for pod in job_state.index.unfinished_pods
        if text(pod, "metadata", "deletionTimestamp") and job_state.index.gang_of(pod) in groups
    ]


def _victims(
    jobs: list[QueuedJob], used: Amounts, deserved: Amounts, guarantee: Amounts, resource: str
) -> Iterator[Amounts]:
    """Yield the requests of the pods that a queue loses, as plug-in capacity chooses them."""
    left = dict(used)
    named = {name for name, amount in deserved.items() if amount}
    for pod in (pod for job in jobs for pod in job.members if pod.placed and pod.evictable):
        request = {name: amount for name, amount in pod.request.items() if amount}
        above = not named & set(request) or any(
            left.get(name, 0) > deserved[name] for name in named if request.get(name)
        )
        kept = all(left.get(name, 0) - request.get(name, 0) >= amount for name, amount in guarantee.items())
        if request.get(resource) and above and kept:
            for name, amount in request.items():
                left[name] = left.get(name, 0) - amount
            yield request
