"""Host names of a TrainJob's pods in the headless Service of its JobSet."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from trainyard.api import Body
from trainyard.api.constants import CONTAINER_NODE, DATASET_INITIALIZER, MODEL_INITIALIZER, TRAINER
from trainyard.checks.finding import Finding
from trainyard.jobs.render.job_view import JobView
from trainyard.jobs.render.pod_set import LAUNCHER, PodSet
from trainyard.jobs.render.resolved_job import ResolvedJob

MOST_PODS: Final = 100_000
"""Pods that Kubernetes accepts in one Job; also the limit of host names in a host file or variable.

Source: ``maxParallelismForIndexedJob`` in the validation of batch/v1.
"""


MOST_VARIABLE_BYTES: Final = 128 * 1024 - 256
"""Bytes of an environment variable; Linux starts no program with a longer string (``MAX_ARG_STRLEN``)."""

MOST_FILE_BYTES: Final = 1024 * 1024
"""Bytes of a ConfigMap's data that the API server accepts."""

HOST_NETWORK_DNS: Final = "ClusterFirstWithHostNet"
"""The dnsPolicy with which a pod on the network of its machine resolves names of the cluster."""

_CLUSTER_DNS: Final = "ClusterFirst"
_INDEXED: Final = "Indexed"
_INITIALIZERS: Final = (DATASET_INITIALIZER, MODEL_INITIALIZER)


def size_of_hosts(job: JobView, pod_set: PodSet, *, separators: int, per_pod: int = 1) -> int:
    """Return an upper bound of the bytes of a list of a pod set's host names, without making it.

    Parameters
    ----------
    separators
        Bytes beside each host name: port, quotes, comma.
    per_pod
        Entries of each pod.
    """
    longest = host(job, pod_set, max(pod_set.count - 1, 0), max(pod_set.replicas - 1, 0))
    return pod_set.pods * per_pod * (len(longest) + separators)


def size_error(job: JobView, what: str, size: int, most: int) -> Iterator[Finding]:
    """Yield a list of host names that is too long for its variable or file; checked before it is made."""
    if size > most:
        trainer = job.spec.trainer
        requested = trainer is not None and (trainer.num_nodes or 0) > 1
        yield Finding(
            "spec.trainer.numNodes" if requested else "spec.runtimeRef",
            f"{what} with all host names would have up to {size} bytes; at most {most} are supported",
            "request fewer nodes" if requested else "lower the replicas or the parallelism in the runtime",
        )


def check_pods(job: ResolvedJob) -> Iterator[Finding]:
    """Yield replicatedJobs that exceed the pods of a Job; checked before their host names are generated."""
    trainer = job.spec.trainer
    requested = trainer is not None and (trainer.num_nodes or 0) > 1
    for pod_set in job.pod_sets:
        if pod_set.pods > MOST_PODS:
            yield Finding(
                "spec.trainer.numNodes" if requested else "spec.runtimeRef",
                f"replicatedJob {pod_set.name} has {pod_set.pods} pods; Kubernetes runs at most {MOST_PODS} in a Job",
                "request fewer nodes" if requested else "lower its replicas or its parallelism in the runtime",
            )


def unresolved_names(job: ResolvedJob, *, rendezvous: bool) -> Iterator[Finding]:
    """Warn about pods that do not find each other by name.

    Parameters
    ----------
    rendezvous
        Whether the framework gives the pods the names of others, and their index.
    """
    if rendezvous:
        yield from _nameless_pods(job)
    found = [pod_set for pod_set in job.pod_sets if pod_set.ancestor not in _INITIALIZERS]
    alone = sum(pod_set.pods for pod_set in found) < 2
    names = sorted(pod_set.name for pod_set in found if not alone and _asks_the_machine(pod_set.pod))
    if names:
        yield Finding.warning(
            "spec.runtimeRef",
            f"the pods of replicatedJob{'s' * (len(names) > 1)} {', '.join(names)} do not resolve the names of other "
            "pods: they ask the name servers of their machine",
            f"set dnsPolicy: {HOST_NETWORK_DNS} (with hostNetwork) or {_CLUSTER_DNS} in the runtime",
        )


def _nameless_pods(job: ResolvedJob) -> Iterator[Finding]:
    """Yield pods without a predictable name, which consists of the index in the Job and JobSet's Service."""
    members = [each for each in job.pod_sets if each.ancestor == TRAINER or each.name == CONTAINER_NODE]
    network = job.job_set_spec.get("network") or {}
    if network.get("enableDNSHostnames", True) is False and sum(each.pods for each in members) > 1:
        yield Finding.warning(
            "spec.runtimeRef",
            "the pods have no names by which they find each other: network.enableDNSHostnames is false",
            "remove it from the runtime",
        )
    for pod_set in members:
        mode = pod_set.job["template"]["spec"].get("completionMode", _INDEXED)
        if mode != _INDEXED and pod_set.name != LAUNCHER:
            yield Finding.warning(
                "spec.runtimeRef",
                f"the pods of replicatedJob {pod_set.name} have neither the index nor the names that the framework "
                f"uses: completionMode is {mode}",
                f"use completionMode {_INDEXED} in the runtime",
            )


def _asks_the_machine(pod: Body) -> bool:
    policy = pod.get("dnsPolicy", _CLUSTER_DNS)
    return policy == "Default" or (policy == _CLUSTER_DNS and bool(pod.get("hostNetwork")))


def subdomain(job: JobView) -> str:
    """Return the name of the Service: network.subdomain of the runtime, otherwise the name of the TrainJob."""
    network = job.job_set_spec.get("network") or {}
    return str(network.get("subdomain") or job.name)


def host(job: JobView, pod_set: PodSet, index: int = 0, replica: int = 0) -> str:
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
    return f"{job.name}-{pod_set.name}-{replica}-{index}.{subdomain(job)}"


def hosts(job: JobView, pod_set: PodSet) -> list[str]:
    """Return the host names of all pods of a replicatedJob, ordered by Job and index."""
    return [host(job, pod_set, index, replica) for replica in range(pod_set.replicas) for index in range(pod_set.count)]
