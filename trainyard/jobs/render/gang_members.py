"""Gang members: pods of a JobSet that form its gang, and the minimum that must be scheduled together.

JobSet creates a replicatedJob only after its dependencies are ready or complete. A gang that counts such pods is never
scheduled. Therefore a replicatedJob is not a member if another one waits for its completion, and a member that waits
for another member to be ready does not count toward minMember.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

from trainyard import quantity
from trainyard.api import Body
from trainyard.jobs.render.pod_set import PodSet
from trainyard.scheduling.queues.pod_requests import requests_of

_COMPLETE = "Complete"
_READY = "Ready"

Waits = Mapping[str, set[tuple[str, str]]]
"""Dependencies of each replicatedJob: name and required status."""


@dataclass(frozen=True)
class Gang:
    """The gang of a JobSet.

    Parameters
    ----------
    members
        Names of the replicatedJobs whose pods belong to the gang.
    min_member
        Pods that must be scheduled together.
    min_resources
        Requests of all members by resource, including members that are created later.
    counted
        Names of the members that count toward `min_member`: those that wait for no other member.
    """

    members: frozenset[str]
    min_member: int
    min_resources: Mapping[str, Fraction]
    counted: frozenset[str]

    def resource_list(self) -> Body:
        """Return `min_resources` as a Kubernetes resource list."""
        return {name: quantity.format(amount, name) for name, amount in sorted(self.min_resources.items())}


def gang_of(job_set_spec: Body, pod_sets: Sequence[PodSet]) -> Gang:
    """Return the gang of a JobSet specification."""
    waits = _waits_of(job_set_spec, pod_sets)
    names = _members(waits)
    resources: dict[str, Fraction] = {}
    counted = frozenset(name for name in names if not _waits_for_member(name, waits, names))
    min_member = 0
    for pod_set in pod_sets:
        if pod_set.name not in names:
            continue
        pods = min_pods(pod_set)
        for resource, amount in requests_of(pod_set.pod).items():
            total = quantity.multiple(amount, pods)
            resources[resource] = resources[resource] + total if resource in resources else total
        if pod_set.name in counted:
            min_member += pods
    return Gang(names, min_member, resources, counted)


def members_of(job_set_spec: Body, pod_sets: Sequence[PodSet]) -> frozenset[str]:
    """Return the names of the replicatedJobs whose pods belong to the gang."""
    return _members(_waits_of(job_set_spec, pod_sets))


def _waits_of(job_set_spec: Body, pod_sets: Sequence[PodSet]) -> Waits:
    """Return the dependencies of each replicatedJob, from dependsOn and the startup policy."""
    waits = {
        pod_set.name: {(entry["name"], entry["status"]) for entry in pod_set.job.get("dependsOn", ())}
        for pod_set in pod_sets
    }
    if job_set_spec.get("startupPolicy", {}).get("startupPolicyOrder") == "InOrder":
        for before, after in pairwise(pod_sets):
            waits[after.name].add((before.name, _READY))
    return waits


def _members(waits: Waits) -> frozenset[str]:
    completed_first = {target for edges in waits.values() for target, status in edges if status == _COMPLETE}
    return frozenset(waits) - completed_first


def min_pods(pod_set: PodSet) -> int:
    """Return the pods required to start; an elastic job starts with fewer than its maximum."""
    return (pod_set.count if pod_set.min_count is None else pod_set.min_count) * pod_set.replicas


def _waits_for_member(name: str, waits: Waits, members: frozenset[str]) -> bool:
    seen: set[str] = set()
    pending = [name]
    while pending:
        current = pending.pop()
        if current in seen:
            continue
        seen.add(current)
        for target, status in waits.get(current, ()):
            if status == _READY and target in members and target != name:
                return True
            pending.append(target)
    return False
