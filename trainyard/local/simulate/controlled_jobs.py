"""Objects of simulated jobs whose pods a controller creates: Jobs of Kubernetes and of Volcano.

The controller replaces lost pods, and Volcano's creates the PodGroup: with ``minMember`` 1 for the pods of a Job, which
have no group of their own, and with ``minAvailable`` for a Volcano Job.
"""

from __future__ import annotations

from typing import Any, Final

from trainyard.api.constants import QUEUE_ANNOTATION
from trainyard.kube.kinds import JOBS
from trainyard.kube.resource import Resource
from trainyard.kube.training_kinds import VOLCANO_JOBS
from trainyard.local.simulate.gang_objects import JOB_LABEL, ROLE_LABEL, pod_spec
from trainyard.local.simulate.scenario_jobs import JobKind, ScenarioGang

RESOURCES: Final = {JobKind.JOB: JOBS, JobKind.VCJOB: VOLCANO_JOBS}
"""Resource of each kind that has a controller."""

_ENDLESS: Final = "10000h"
"""Run time of the pods: the replay ends a job by deleting it."""


def controlled_job(job: ScenarioGang, name: str) -> tuple[Resource, dict[str, Any]]:
    """Return a job under a name, with its resource."""
    annotations = {"trainyard.dev/simulated-duration": _ENDLESS}
    spec = pod_spec(job.per_pod, job.priority_class)
    if job.kind is JobKind.JOB:
        annotations[QUEUE_ANNOTATION] = job.queue
    template = {
        "metadata": {"labels": {ROLE_LABEL: "job", JOB_LABEL: job.name}, "annotations": annotations},
        "spec": spec,
    }
    resource = RESOURCES[job.kind]
    body: dict[str, Any] = {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": name, "namespace": job.namespace},
    }
    if job.kind is JobKind.JOB:
        # Evicted pods count as failures.
        body["spec"] = {"parallelism": job.pods, "completions": job.pods, "backoffLimit": 1000, "template": template}
        return resource, body
    body["spec"] = {
        "schedulerName": "volcano",
        "queue": job.queue,
        "minAvailable": job.min_member,
        "tasks": [{"name": "node", "replicas": job.pods, "template": template}],
    }
    if job.priority_class:
        body["spec"]["priorityClassName"] = job.priority_class
    return resource, body
