"""Recorded state of a cluster that an explanation reads: Kubernetes objects, and the time."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from typing import Final

from trainyard.cluster_state.body_fields import Body


class Kind:
    """Kinds that an explanation reads, with their API group."""

    TRAIN_JOB: Final = "TrainJob.trainer.kubeflow.org"
    RUNTIME: Final = "TrainingRuntime.trainer.kubeflow.org"
    CLUSTER_RUNTIME: Final = "ClusterTrainingRuntime.trainer.kubeflow.org"
    PLATFORM: Final = "Platform.trainyard.dev"
    JOB_SET: Final = "JobSet.jobset.x-k8s.io"
    JOB: Final = "Job.batch"
    VOLCANO_JOB: Final = "Job.batch.volcano.sh"
    POD_GROUP: Final = "PodGroup.scheduling.volcano.sh"
    QUEUE: Final = "Queue.scheduling.volcano.sh"
    HYPER_NODE: Final = "HyperNode.topology.volcano.sh"
    NODE: Final = "Node"
    POD: Final = "Pod"
    EVENT: Final = "Event"
    CLAIM: Final = "PersistentVolumeClaim"
    QUOTA: Final = "ResourceQuota"
    PRIORITY_CLASS: Final = "PriorityClass.scheduling.k8s.io"
    DEPLOYMENT: Final = "Deployment.apps"
    LEASE: Final = "Lease.coordination.k8s.io"
    WORKLOAD: Final = "Workload.kueue.x-k8s.io"

    ALL: Final = (
        *(TRAIN_JOB, RUNTIME, CLUSTER_RUNTIME, PLATFORM, JOB_SET, JOB, VOLCANO_JOB, POD_GROUP, QUEUE, HYPER_NODE),
        *(NODE, POD, EVENT, CLAIM, QUOTA, PRIORITY_CLASS, DEPLOYMENT, LEASE, WORKLOAD),
    )


def resource_of(kind: str) -> str:
    """Return the plural of a kind with its API group, as `kubectl auth can-i list` takes it."""
    name, dot, group = kind.lower().partition(".")
    return f"{name}{'es' if name.endswith('s') else 's'}{dot}{group}"


@dataclass(frozen=True)
class Observed:
    """Recorded state of a cluster.

    Parameters
    ----------
    now
        Time of the record.
    objects
        Kubernetes objects with apiVersion and kind, in any order; unknown kinds are ignored.
    unread
        Kinds that could not be read, as in `Kind`; other kinds are complete.
    is_timed
        Whether the objects were read at that time; otherwise each may be of another time.
    """

    now: datetime.datetime
    objects: tuple[Body, ...]
    unread: frozenset[str] = frozenset()
    is_timed: bool = True
