"""JobState of one job: the objects that belong to it, its state, and the pods that need a place."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from enum import StrEnum
from functools import cached_property
from typing import Final

from trainyard.api.constants import (
    ANCESTOR_LABEL,
    DATASET_INITIALIZER,
    GROUP_NAME_ANNOTATION,
    KUEUE_QUEUE_LABEL,
    MODEL_INITIALIZER,
    QUEUE_ANNOTATION,
    REPLICATED_JOB_LABEL,
    VOLCANO_SCHEDULER,
)
from trainyard.cluster_state.body_fields import Body, condition, mapping, name_of, namespace_of, sequence, text, whole
from trainyard.cluster_state.cluster_index import ClusterIndex, kind_of
from trainyard.cluster_state.observed import Kind, Observed
from trainyard.cluster_state.shares import Shares
from trainyard.insight.explain.node_table import Demand, NodeTable
from trainyard.scheduling.queues.amounts import Amounts, total
from trainyard.scheduling.queues.queue import DEFAULT
from trainyard.scheduling.queues.queued_gangs import QueuedJob

_JOB_SET: Final = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet"}
_KUEUE_GATE: Final = "kueue.x-k8s.io/admission"
_INITIALIZERS: Final = (DATASET_INITIALIZER, MODEL_INITIALIZER)
_ENDS: Final = {
    Kind.TRAIN_JOB: ("Complete", "Failed"),
    Kind.JOB_SET: ("Completed", "Failed"),
    Kind.JOB: ("Complete", "Failed"),
}
_VOLCANO_ENDS: Final = {
    **dict.fromkeys(("Completed", "Completing"), True),
    **dict.fromkeys(("Failed", "Aborted", "Aborting", "Terminated", "Terminating"), False),
}
"""Whether a Volcano Job succeeded, by phase; in those that end on -ing, its pods are being deleted."""


class ExplainedState(StrEnum):
    """State of a job."""

    WAITING = "Waiting"
    STARTING = "Starting"
    RUNNING = "Running"
    SUSPENDED = "Suspended"
    COMPLETE = "Complete"
    FAILED = "Failed"


class ClusterView:
    """A recorded cluster, for the explanation of any number of its jobs.

    Parameters
    ----------
    observed
        The state.
    """

    def __init__(self, observed: Observed) -> None:
        self.index = ClusterIndex(observed)

    @cached_property
    def shares(self) -> Shares:
        """Queues and gangs of the cluster."""
        return Shares(self.index)

    @cached_property
    def table(self) -> NodeTable:
        """Nodes of the cluster."""
        return NodeTable(self.index)


class JobState:
    """The objects of one job.

    Parameters
    ----------
    view
        The cluster.
    named
        The object that a person named.
    """

    def __init__(self, view: ClusterView, named: Body) -> None:
        self.view, self.index, self.named = view, view.index, named
        self.namespace = namespace_of(named)
        above, seen = named, {kind_of(named)}
        while (owner := self.index.owner(above)) is not None and kind_of(owner) not in seen:
            seen.add(kind_of(owner))
            above = owner
        self.root = above
        """The object that owns all others."""
        self.kind = kind_of(above)
        self.train_job = above if self.kind == Kind.TRAIN_JOB else None

    @property
    def name(self) -> str:
        """Name of the root."""
        return name_of(self.root)

    @cached_property
    def job_set(self) -> Body | None:
        """The JobSet, or None if it does not exist."""
        if self.kind == Kind.JOB_SET:
            return self.root
        if self.train_job is None:
            return None
        return next(iter(self.index.children(self.root, Kind.JOB_SET)), None)

    def reads(self, kind: str) -> bool:
        """Return whether the objects of a kind in the job's namespace were read."""
        return self.index.reads(kind, self.namespace)

    @cached_property
    def jobs(self) -> list[Body]:
        """The Jobs."""
        if self.kind == Kind.JOB:
            return [self.root]
        owner = self.job_set
        if owner is None and self.train_job is not None and not self.reads(Kind.JOB_SET):
            owner = {**_JOB_SET, "metadata": {"name": self.name, "namespace": self.namespace}}
        return [] if owner is None else self.index.children(owner, Kind.JOB)

    @cached_property
    def all_pods(self) -> list[Body]:
        """The pods, finished ones included."""
        if self.kind == Kind.POD:
            return [self.root]
        owners = [self.root] if self.kind == Kind.VOLCANO_JOB else self.jobs
        if not owners and not self.reads(Kind.JOB):
            groups = [each for body in self._owners for each in self.index.children(body, Kind.POD_GROUP)]
            return [pod for each in groups for pod in self.index.members.get((self.namespace, name_of(each)), ())]
        return [pod for owner in owners for pod in self.index.children(owner, Kind.POD)]

    @cached_property
    def pods(self) -> list[Body]:
        """Pods that are neither finished nor being deleted; of the Job or Pod that was named only."""
        chosen = self.all_pods
        if self.named is not self.root and kind_of(self.named) in (Kind.JOB, Kind.POD):
            named = kind_of(self.named)
            chosen = [self.named] if named == Kind.POD else self.index.children(self.named, Kind.POD)
        return [pod for pod in chosen if _lives(pod)]

    @property
    def _owners(self) -> list[Body]:
        return [body for body in (self.root, self.job_set, *self.jobs) if body is not None]

    @cached_property
    def pod_group(self) -> Body | None:
        """The PodGroup, or None if the job has none."""
        for pod in self.all_pods:
            name = text(pod, "metadata", "annotations", GROUP_NAME_ANNOTATION)
            if name and (found := self.index.find(Kind.POD_GROUP, name, self.namespace)) is not None:
                return found
        return next((group for body in self._owners for group in self.index.children(body, Kind.POD_GROUP)), None)

    @cached_property
    def gang(self) -> QueuedJob | None:
        """The gang as the scheduler counts it, or None if there is no PodGroup, or it is finished."""
        group = self.pod_group
        if group is None:
            return None
        return self.view.shares.by_name.get(f"{namespace_of(group) or 'default'}/{name_of(group)}")

    @cached_property
    def templates(self) -> list[tuple[str, Body, int]]:
        """Name, pod template and number of pods of each part of the job, as its objects declare them."""
        found: list[tuple[str, Body, int]] = []
        if self.job_set is not None:
            for part in sequence(self.job_set, "spec", "replicatedJobs"):
                job = mapping(part, "template", "spec")
                count = whole(part, "replicas", default=1) * whole(job, "parallelism", default=1)
                found.append((text(part, "name"), mapping(job, "template"), count))
        elif self.kind == Kind.VOLCANO_JOB:
            for task in sequence(self.root, "spec", "tasks"):
                found.append((text(task, "name"), mapping(task, "template"), whole(task, "replicas", default=1)))
        elif self.kind == Kind.JOB:
            spec = mapping(self.root, "spec")
            found.append((self.name, mapping(spec, "template"), whole(spec, "parallelism", default=1)))
        elif self.kind == Kind.POD:
            found.append((self.name, self.root, 1))
        return found

    @property
    def pod_specs(self) -> Iterator[Body]:
        """Specs of the pods, or of the templates while there are none."""
        if self.pods:
            yield from (mapping(pod, "spec") for pod in self.pods)
        else:
            yield from (mapping(template, "spec") for _, template, _ in self.templates)

    @cached_property
    def queue(self) -> str:
        """Name of the queue; empty: no pod is for Volcano."""
        if self.pod_group is not None:
            return text(self.pod_group, "spec", "queue") or DEFAULT
        for body in (self.root, self.job_set, *(template for _, template, _ in self.templates)):
            annotation = text(body, "metadata", "annotations", QUEUE_ANNOTATION) or text(body, "spec", "queue")
            if annotation:
                return annotation
        volcano = any(text(spec, "schedulerName") == VOLCANO_SCHEDULER for spec in self.pod_specs)
        return DEFAULT if volcano or self.kind == Kind.VOLCANO_JOB else ""

    @cached_property
    def unplaced(self) -> list[Body]:
        """Pods of the gang without a node, whichever was named."""
        return [pod for pod in self.all_pods if _lives(pod) and _is_unplaced(pod)]

    @cached_property
    def demands(self) -> list[Demand]:
        """Pods that must find a place for the gang to start, equal ones together."""
        if found := demands_of(self.unplaced[: self._awaited]):
            return found
        if self.gang is None or self.gang.running or self.initializers:
            return []
        spec = next(self.pod_specs, {})
        parts = Counter(tuple(sorted(pod.request.items())) for pod in self.gang.pods if not pod.placed)
        return [Demand(dict(key), count, spec) for key, count in parts.items()]

    @property
    def _awaited(self) -> int:
        """Number of the pods of `unplaced` with which the gang starts."""
        wanted = len(self.unplaced)
        if self.gang is None or self.gang.running:
            return wanted
        held = sum(pod.placed for pod in self.gang.pods)
        return min(wanted, max(0, self.gang.needed - held)) or wanted

    @property
    def is_elastic(self) -> bool:
        """Whether the gang starts with fewer pods than wait for a place."""
        return self._awaited < len(self.unplaced)

    @property
    def request(self) -> Amounts:
        """Units by resource that the pods of `demands` request together."""
        return total({name: amount * each.count for name, amount in each.request.items()} for each in self.demands)

    @property
    def members(self) -> int:
        """Number of pods of `demands`."""
        return sum(each.count for each in self.demands)

    @cached_property
    def initializers(self) -> list[str]:
        """Replicated jobs that others wait for and that have not succeeded."""
        if self.job_set is None:
            return []
        awaited = {
            text(each, "name")
            for part in sequence(self.job_set, "spec", "replicatedJobs")
            for each in sequence(part, "dependsOn")
            if text(each, "status") in ("", "Complete")
        }
        for part in sequence(self.job_set, "spec", "replicatedJobs"):
            if text(part, "template", "metadata", "labels", ANCESTOR_LABEL) in _INITIALIZERS:
                awaited.add(text(part, "name"))
        counts = {text(each, "name"): each for each in sequence(self.job_set, "status", "replicatedJobsStatus")}
        wanted = {
            text(part, "name"): whole(part, "replicas", default=1)
            for part in sequence(self.job_set, "spec", "replicatedJobs")
        }
        return sorted(
            name for name in awaited if name in wanted and whole(counts.get(name), "succeeded") < wanted[name]
        )

    @property
    def holds_job_set(self) -> bool:
        """Whether the JobSet is suspended, and the TrainJob is not."""
        return self.train_job is not None and not _suspends(self.train_job) and _suspends(self.job_set)

    @cached_property
    def held_jobs(self) -> list[Body]:
        """Suspended Jobs whose JobSet is not, and that wait for no other Job."""
        if self.job_set is None or _suspends(self.job_set):
            return []
        parts = sequence(self.job_set, "spec", "replicatedJobs")
        if text(self.job_set, "spec", "startupPolicy", "startupPolicyOrder") == "InOrder":
            parts = parts[:1]
        names = {text(part, "name") for part in parts if not sequence(part, "dependsOn")}
        return [
            job
            for job in self.jobs
            if _suspends(job)
            and self._end(job) is None
            and text(job, "metadata", "labels", REPLICATED_JOB_LABEL) in names
        ]

    @cached_property
    def state(self) -> ExplainedState:
        """State of the job, or of the pod that was named."""
        ended = self._end(self.named) if kind_of(self.named) == Kind.POD else self._end(self.root)
        if ended is not None:
            return ExplainedState.COMPLETE if ended else ExplainedState.FAILED
        bodies = [body for body in (self.root, self.job_set) if body is not None]
        if any(map(_suspends, bodies)):
            return ExplainedState.SUSPENDED
        if not self.initializers and not self.pods and not self.reads(Kind.POD):
            return ExplainedState.RUNNING if self._runs_by_status else ExplainedState.WAITING
        if self.initializers or not self.pods:
            return ExplainedState.WAITING
        unplaced = [pod for pod in self.pods if _is_unplaced(pod)]
        elastic = self.gang is not None and self.gang.running
        if len(unplaced) == len(self.pods) or (unplaced and not elastic):
            return ExplainedState.WAITING
        if any(gated(pod) for pod in self.pods):
            return ExplainedState.WAITING
        running = [pod for pod in self.pods if condition(pod, "Ready") or text(pod, "status", "phase") == "Running"]
        return ExplainedState.RUNNING if len(running) >= len(self.pods) - len(unplaced) else ExplainedState.STARTING

    @property
    def _runs_by_status(self) -> bool:
        """Whether the job runs by the status of the objects above its pods."""
        if self.pod_group is not None:
            return text(self.pod_group, "status", "phase") == "Running"
        wanted = ((whole(job, "spec", "parallelism", default=1), whole(job, "status", "ready")) for job in self.jobs)
        return bool(self.jobs) and all(ready >= count for count, ready in wanted)

    @property
    def waits_for_room(self) -> bool:
        """Whether the scheduler has to place pods."""
        return self.state is ExplainedState.WAITING and bool(self.demands)

    @property
    def ended(self) -> bool:
        """Whether the job is finished."""
        return self.state in (ExplainedState.COMPLETE, ExplainedState.FAILED)

    def _end(self, body: Body) -> bool | None:
        kind = kind_of(body)
        if kind == Kind.POD:
            return {"Succeeded": True, "Failed": False}.get(text(body, "status", "phase"))
        if kind == Kind.VOLCANO_JOB:
            return _VOLCANO_ENDS.get(text(body, "status", "state", "phase"))
        complete, failed = _ENDS.get(kind, ("Complete", "Failed"))
        if condition(body, complete) is not None:
            return True
        return False if condition(body, failed) is not None else None


def demands_of(pods: Iterable[Body]) -> list[Demand]:
    """Return what pods need to find a place, equal ones together."""
    grouped: dict[object, Demand] = {}
    for pod in pods:
        demand = Demand.of(mapping(pod, "spec"))
        known = grouped.get(demand.key)
        grouped[demand.key] = demand if known is None else replace(known, count=known.count + 1)
    return list(grouped.values())


def _suspends(body: Body | None) -> bool:
    return mapping(body, "spec").get("suspend") is True


def gated(pod: Body) -> bool:
    """Return whether a pod has scheduling gates."""
    return bool(sequence(pod, "spec", "schedulingGates"))


def gated_by_kueue(job_state: JobState) -> list[Body]:
    """Return the pods that Kueue has not admitted: a pod of a Kueue queue has a gate until then."""
    return [
        pod
        for pod in job_state.pods
        if text(pod, "metadata", "labels", KUEUE_QUEUE_LABEL)
        and any(text(gate, "name") == _KUEUE_GATE for gate in sequence(pod, "spec", "schedulingGates"))
    ]


def _is_unplaced(pod: Body) -> bool:
    return not text(pod, "spec", "nodeName") and not gated(pod)


def _lives(pod: Body) -> bool:
    finished = text(pod, "status", "phase") in ("Succeeded", "Failed")
    return not finished and not mapping(pod, "metadata").get("deletionTimestamp")
