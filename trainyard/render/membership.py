"""Which pods of a JobSet form the gang, and how many of them exist when the gang is placed.

A gang that counts pods which are created only after other pods of the gang are ready, or that holds a step which
others wait to see completed, waits for ever. So a step that another waits for to be complete is no member, and members
that wait for a member to be ready are not counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

from trainyard.api import Body
from trainyard.render.plan import PodSet
from trainyard.render.requests import pod_requests

__all__ = ["Gang", "gang_of"]

_COMPLETE = "Complete"
_READY = "Ready"


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
        What all members ask for, by resource.
    """

    members: frozenset[str]
    min_member: int
    min_resources: Mapping[str, Fraction]


def gang_of(job_set_spec: Body, pod_sets: Sequence[PodSet]) -> Gang:
    """Return the gang of a JobSet specification."""
    waits = _waits(job_set_spec, pod_sets)
    completed_first = {target for edges in waits.values() for target, status in edges if status == _COMPLETE}
    members = [pod_set for pod_set in pod_sets if pod_set.name not in completed_first]
    names = frozenset(pod_set.name for pod_set in members)
    counted = [pod_set for pod_set in members if not _waits_for_member(pod_set.name, waits, names)]
    resources: dict[str, Fraction] = {}
    for pod_set in members:
        for resource, amount in pod_requests(pod_set.pod).items():
            resources[resource] = resources.get(resource, Fraction(0)) + amount * pod_set.pods
    return Gang(names, sum(pod_set.pods for pod_set in counted), resources)


def _waits(job_set_spec: Body, pod_sets: Sequence[PodSet]) -> dict[str, set[tuple[str, str]]]:
    waits = {
        pod_set.name: {(entry["name"], entry["status"]) for entry in pod_set.job.get("dependsOn", ())}
        for pod_set in pod_sets
    }
    if job_set_spec.get("startupPolicy", {}).get("startupPolicyOrder") == "InOrder":
        for before, after in pairwise(pod_sets):
            waits[after.name].add((before.name, _READY))
    return waits


def _waits_for_member(name: str, waits: Mapping[str, set[tuple[str, str]]], members: frozenset[str]) -> bool:
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
