"""Jobs of a JobSet, as JobSet's controller creates them (``constructJob``, JobSet 0.12).

Labels, annotations and the placement that the controller adds are valid for every JobSet and are left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from trainyard.api import Body


@dataclass(frozen=True)
class ChildJob:
    """The last Job of a replicatedJob: its name is the longest.

    Parameters
    ----------
    index
        Index of the replicatedJob.
    replicated_job
        Name of the replicatedJob.
    body
        The Job.
    """

    index: int
    replicated_job: str
    body: Body


def child_jobs(job_set: Body) -> Iterator[ChildJob]:
    """Yield one suspended Job for each replicatedJob of a rendered JobSet."""
    for index, replicated_job in enumerate(job_set["spec"]["replicatedJobs"]):
        name = replicated_job["name"]
        yield ChildJob(index, name, _job(job_set, replicated_job))


def is_job_set(body: Body) -> bool:
    """Return whether the replicatedJobs of a JobSet, as a user wrote it, have names and pod templates."""
    spec = body.get("spec")
    if not isinstance(spec, dict) or not isinstance(spec.get("network") or {}, dict):
        return False
    policies, jobs = spec.get("volumeClaimPolicies") or [], spec.get("replicatedJobs")
    if not isinstance(policies, list) or not all(map(_has_metadata, policies)):
        return False
    claims = (claim for policy in policies for claim in _list(policy.get("templates")))
    return all(map(_has_metadata, claims)) and isinstance(jobs, list) and all(map(_is_replicated_job, jobs))


def _has_metadata(body: Any) -> bool:
    return isinstance(body, dict) and isinstance(body.get("metadata") or {}, dict)


def _is_replicated_job(job: Any) -> bool:
    if not isinstance(job, dict) or not isinstance(job.get("name"), str) or type(job.get("replicas", 1)) is not int:
        return False
    for field in ("template", "spec", "template", "spec"):
        job = job.get(field)
        if not _has_metadata(job):
            return False
    containers = (*_list(job.get("containers")), *_list(job.get("initContainers")))
    mounts = (mount for each in containers if isinstance(each, dict) for mount in _list(each.get("volumeMounts")))
    return all(isinstance(each, dict) for each in (*containers, *mounts)) and isinstance(job.get("volumes", []), list)


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _job(job_set: Body, replicated_job: Body) -> Body:
    metadata, template = job_set["metadata"], replicated_job["template"]
    last = max(0, int(replicated_job.get("replicas", 1)) - 1)
    name = f"{metadata['name']}-{replicated_job['name']}-{last}"
    spec = {"completionMode": "Indexed", **template["spec"], "suspend": True}
    pods = spec["template"]
    pod = {"restartPolicy": "OnFailure", **pods["spec"]}
    network = job_set["spec"].get("network") or {}
    if network.get("enableDNSHostnames", True):
        pod["subdomain"] = network.get("subdomain") or metadata["name"]
    if claimed := [*_claimed_volumes(job_set, pod)]:
        pod["volumes"] = [*pod.get("volumes", ()), *claimed]
    spec["template"] = {**pods, "spec": pod}
    own = {key: value for key, value in (template.get("metadata") or {}).items() if key in ("labels", "annotations")}
    named = {**own, "name": name, "namespace": metadata.get("namespace", "default")}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": named, "spec": spec}


def _claimed_volumes(job_set: Body, pod: Body) -> Iterator[Body]:
    """Yield the volumes of the claims that JobSet creates, if a container mounts them."""
    containers = (*(pod.get("containers") or ()), *(pod.get("initContainers") or ()))
    mounted = {mount.get("name") for container in containers for mount in container.get("volumeMounts") or ()}
    for policy in job_set["spec"].get("volumeClaimPolicies") or ():
        for template in policy.get("templates") or ():
            name = (template.get("metadata") or {}).get("name")
            if name in mounted:
                claim = {"claimName": f"{name}-{job_set['metadata']['name']}"}
                yield {"name": name, "persistentVolumeClaim": claim}
