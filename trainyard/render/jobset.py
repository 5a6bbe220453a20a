"""JobSet of a TrainJob."""

from __future__ import annotations

from trainyard.api import Body
from trainyard.api.constants import ANCESTOR_CONTAINERS, JOB_SET_API_VERSION, QUEUE_ANNOTATION, VOLCANO_SCHEDULER
from trainyard.render.pod_editing import section
from trainyard.render.working_state import Plan

__all__ = ["job_set", "place_in_queue", "set_counts"]


def set_counts(plan: Plan) -> None:
    """Set the number of pods of each replicatedJob; completions equal parallelism."""
    for pod_set in plan.pod_sets:
        if pod_set.ancestor in ANCESTOR_CONTAINERS:
            pod_set.job["replicas"] = 1
        job = section(pod_set.job, "template", "spec")
        job["parallelism"] = pod_set.count
        job["completions"] = pod_set.count


def place_in_queue(plan: Plan) -> None:
    """Set the tenant's queue on pods that Volcano schedules without a gang, unless the runtime sets one."""
    if not plan.queue:
        return
    for pod_set in plan.pod_sets:
        if pod_set.pod.get("schedulerName") == VOLCANO_SCHEDULER:
            section(pod_set.template, "metadata", "annotations").setdefault(QUEUE_ANNOTATION, plan.queue)


def job_set(plan: Plan) -> Body:
    """Return the JobSet; it contains everything that Kueue requires to rebuild the pod sets."""
    metadata = plan.metadata(plan.name)
    if plan.labels:
        metadata["labels"] = dict(sorted(plan.labels.items()))
    if plan.annotations:
        metadata["annotations"] = dict(sorted(plan.annotations.items()))
    spec = {**plan.job_set_spec, "suspend": plan.spec.suspend}
    return {"apiVersion": JOB_SET_API_VERSION, "kind": "JobSet", "metadata": metadata, "spec": spec}
