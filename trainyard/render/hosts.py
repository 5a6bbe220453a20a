"""Host names of a TrainJob's pods, as JobSet assigns them in its headless Service."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from trainyard.checks.finding import Finding
from trainyard.render.working_state import Plan, PodSet

__all__ = ["MOST_PODS", "check_pods", "host", "hosts", "subdomain"]

MOST_PODS: Final = 100_000
"""Pods of one Job that Kubernetes accepts, and of one replicatedJob that have names in a host file or a variable.

Source: ``maxParallelismForIndexedJob`` in the validation of batch/v1.
"""


def check_pods(plan: Plan) -> Iterator[Finding]:
    """Find replicatedJobs with more pods than Kubernetes would run, before their names are written anywhere."""
    trainer = plan.spec.trainer
    asked = trainer is not None and (trainer.num_nodes or 0) > 1
    for pod_set in plan.pod_sets:
        if pod_set.pods > MOST_PODS:
            yield Finding(
                "spec.trainer.numNodes" if asked else "spec.runtimeRef",
                f"replicatedJob {pod_set.name} has {pod_set.pods} pods; Kubernetes runs at most {MOST_PODS} in a Job",
                "ask for fewer nodes" if asked else "lower its replicas or its parallelism in the runtime",
            )


def subdomain(plan: Plan) -> str:
    """Return the name of the Service: the runtime's network.subdomain, else the name of the job."""
    network = plan.job_set_spec.get("network") or {}
    return str(network.get("subdomain") or plan.name)


def host(plan: Plan, pod_set: PodSet, index: int = 0, replica: int = 0) -> str:
    """Return the host name of one pod.

    Parameters
    ----------
    pod_set
        The pods of one replicatedJob.
    index
        Completion index of the pod in its Job.
    replica
        Index of the Job in its replicatedJob.
    """
    return f"{plan.name}-{pod_set.name}-{replica}-{index}.{subdomain(plan)}"


def hosts(plan: Plan, pod_set: PodSet) -> list[str]:
    """Return the host names of all pods of a replicatedJob, Job by Job."""
    return [
        host(plan, pod_set, index, replica) for replica in range(pod_set.replicas) for index in range(pod_set.count)
    ]
