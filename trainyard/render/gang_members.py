"""Gang members: which pods of a JobSet form the gang, and how many exist when the gang is placed.

A gang that counts pods which are created only after other pods of the gang are ready, or that holds a step which
others wait to see completed, is never scheduled. So a step that another waits for to be complete is no
member, and members that wait for a member to be ready are not counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

from trainyard import quantity
from trainyard.api import Body
from trainyard.render.pod_resources import pod_requests
from trainyard.render.pod_set import PodSet

__all__ = ["Gang", "gang_of", "members_of", "waits_of"]

_COMPLETE = "Complete"
_READY = "Ready"

Waits = Mapping[str, set[tuple[str, str]]]
"""By replicatedJob: what it waits for, and with which status."""


@dataclass(frozen=True)
class Gang:
    """The gang of a JobSet.

    Parameters
    ----------
    members
        Names of the replicatedJobs whose pods belong to the gang.
    min_member
        Pods that must be placed together.
    min_resources
        What those pods ask for and, with them, the members that come later, by resource.
    """

    members: frozenset[str]
    min_member: int
    min_resources: Mapping[str, Fraction]

    def resource_list(self) -> Body:
        """Return `min_resources` as a Kubernetes resource list."""
        return {name: quantity.format(amount, name) for name, amount in sorted(self.min_resources.items())}


def gang_of(job_set_spec: Body, pod_sets: Sequence[PodSet]) -> Gang:
    """Return the gang of a JobSet specification."""
    waits = waits_of(job_set_spec, pod_sets)
    names = _members(waits)
    resources: dict[str, Fraction] = {}
    min_member = 0
    for pod_set in pod_sets:
        if pod_set.name not in names:
            continue
        pods = _least(pod_set)
        for resource, amount in pod_requests(pod_set.pod).items():
            asked = amount * pods
            resources[resource] = resources[resource] + asked if resource in resources else asked
        if not _waits_for_member(pod_set.name, waits, names):
            min_member += pods
    return Gang(names, min_member, resources)


def members_of(job_set_spec: Body, pod_sets: Sequence[PodSet]) -> frozenset[str]:
    """Return the names of the replicatedJobs whose pods belong to the gang."""
    return _members(waits_of(job_set_spec, pod_sets))


def waits_of(job_set_spec: Body, pod_sets: Sequence[PodSet]) -> Waits:
    """Return what each replicatedJob waits for, by dependsOn or by the startup policy."""
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


def _least(pod_set: PodSet) -> int:
    """Return the pods that must be there: an elastic job starts with fewer than it may have."""
    return (pod_set.count if pod_set.least is None else pod_set.least) * pod_set.replicas


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
