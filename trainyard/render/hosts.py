"""The names by which the pods of a TrainJob find each other, those of JobSet in its headless Service."""

from __future__ import annotations

from trainyard.render.plan import Plan, PodSet

__all__ = ["host", "hosts", "subdomain"]


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
