"""Limits of names and numbers: JobSet derives names from the TrainJob's name and rejects those that are too long.

JobSet's validating webhook limits each of these to 63 characters:

- Jobs: ``<job>-<replicatedJob>-<last replica>``
- pods of indexed Jobs: ``<job>-<replicatedJob>-<last replica>-<last index>-<5 characters>``
- volume claims: ``<claim>-<job>``
- the address of the coordinator: ``<job>-<replicatedJob>-<replica>-<index>.<subdomain>``
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from trainyard.checks.finding import Finding
from trainyard.jobs.render.job_view import JobView
from trainyard.jobs.render.jobset_rules import LONGEST_LABEL
from trainyard.jobs.render.pod_set import PodSet
from trainyard.jobs.render.resolved_job import ResolvedJob

_LABEL: Final = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_POD_SUFFIX: Final = len("-abcde")
_MAX_PODS: Final = 2**31 - 1


def check_names(job: ResolvedJob) -> Iterator[Finding]:
    """Yield names and numbers that JobSet or the API server rejects."""
    name = job.name
    if not name:
        yield Finding("metadata.name", "Field required", "add it")
        return
    if not _LABEL.fullmatch(name):
        yield Finding(
            "metadata.name",
            f"{name!r} is not an RFC 1035 label",
            "use lower-case letters, digits and -, starting with a letter",
        )
    room, reason = min(_rooms(job))
    if len(name) > room:
        fix = f"use a name of at most {room} characters" if room > 0 else "shorten the names in the runtime"
        yield Finding(
            "metadata.name", f"{name!r} has {len(name)} characters, but {reason} leaves room for {max(room, 0)}", fix
        )
    for pod_set in job.pod_sets:
        if pod_set.pods > _MAX_PODS:
            yield Finding(
                "spec.trainer.numNodes", f'replicatedJob "{pod_set.name}" would have {pod_set.pods} pods', "use fewer"
            )
    yield from _coordinator_errors(job)


def _rooms(job: JobView) -> Iterator[tuple[int, str]]:
    yield LONGEST_LABEL, "a TrainJob"
    for pod_set in job.pod_sets:
        yield _job_room(pod_set)
    for policy in job.job_set_spec.get("volumeClaimPolicies", ()):
        for claim in policy.get("templates", ()):
            claim_name = claim.get("metadata", {}).get("name", "")
            yield LONGEST_LABEL - len(f"{claim_name}-"), f'volume claim "{claim_name}" of the runtime'
    coordinator = job.job_set_spec.get("coordinator")
    if coordinator:
        yield _coordinator_room(job, coordinator)


def _job_room(pod_set: PodSet) -> tuple[int, str]:
    suffix = f"-{pod_set.name}-{pod_set.replicas - 1}"
    if pod_set.job["template"]["spec"].get("completionMode", "Indexed") != "Indexed":
        return LONGEST_LABEL - len(suffix), f'replicatedJob "{pod_set.name}" of the runtime'
    room = LONGEST_LABEL - len(f"{suffix}-{pod_set.count - 1}") - _POD_SUFFIX
    return room, f'replicatedJob "{pod_set.name}" of the runtime with {pod_set.count} pods'


def _coordinator_room(job: JobView, coordinator: dict[str, object]) -> tuple[int, str]:
    subdomain = job.job_set_spec.get("network", {}).get("subdomain")
    inner = f"-{coordinator['replicatedJob']}-{coordinator.get('jobIndex', 0)}-{coordinator.get('podIndex', 0)}."
    reason = "the coordinator of the runtime"
    if subdomain:
        return LONGEST_LABEL - len(inner) - len(subdomain), reason
    return (LONGEST_LABEL - len(inner)) // 2, reason


def _coordinator_errors(job: ResolvedJob) -> Iterator[Finding]:
    coordinator = job.job_set_spec.get("coordinator")
    pod_set = job.pod_set(coordinator["replicatedJob"]) if coordinator else None
    if coordinator and pod_set and not 0 <= coordinator.get("podIndex", 0) < pod_set.count:
        yield Finding(
            "spec.runtimeRef",
            f'the coordinator is pod {coordinator["podIndex"]} of replicatedJob "{pod_set.name}", '
            f"which has {pod_set.count} pods",
            "correct spec.template.spec.coordinator of the runtime, or use more nodes",
        )
