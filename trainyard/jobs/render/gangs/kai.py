"""KAI: scheduler and queue of the pods; KAI's pod grouper creates the PodGroup from the JobSet.

The grouper reads the queue from the label of the JobSet, then of the TrainJob, then of a pod. It requires all pods of
all replicatedJobs unless annotations set lower minimums: on the JobSet the number of replicatedJobs, on a Job template
the number of its pods. Without the former, a JobSet whose replicatedJobs depend on each other never starts. Without the
latter, an elastic job starts only with all its pods.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Annotated, Final

from pydantic import Field

from trainyard.api import Body
from trainyard.api.kubernetes_model import KubernetesModel
from trainyard.checks.finding import Finding
from trainyard.jobs.render.gangs.base import GangScheduler, name_scheduler
from trainyard.jobs.render.job_set_builder import JobSetBuilder
from trainyard.jobs.render.job_view import JobView
from trainyard.jobs.render.pod_editing import section
from trainyard.jobs.render.pod_set import PodSet
from trainyard.jobs.render.resolved_job import ResolvedJob

KAI_SCHEDULER: Final = "kai-scheduler"
KAI_QUEUE_LABEL: Final = "kai.scheduler/queue"
KAI_MIN_MEMBER_ANNOTATION: Final = "kai.scheduler/batch-min-member"
KAI_TOPOLOGY_ANNOTATION: Final = "kai.scheduler/topology"

_QUEUE_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?")
_QUEUE_PATH: Final = f"spec.labels[{KAI_QUEUE_LABEL}]"
_QUEUE_FIX: Final = "name a queue of KAI: lower-case letters, digits, - and ., at most 63 characters"
_DEFAULT_QUEUE: Final = "default-queue"
_PLACEMENTS: Final = tuple(f"{KAI_TOPOLOGY_ANNOTATION}-{kind}-placement" for kind in ("required", "preferred"))
_ONE_AT_A_TIME: Final = "1"


class KaiPolicy(KubernetesModel):
    """The KAI scheduler."""

    queue: Annotated[str | None, Field(min_length=1, max_length=63)] = None
    """KAI queue of the pods, unless the TrainJob sets one."""


class Kai(GangScheduler[KaiPolicy]):
    """The KAI scheduler."""

    name = "kai"
    order = 30
    summary = "KAI."
    policy_model = KaiPolicy
    added = "the KAI scheduler (#2628)"
    schedulers = (KAI_SCHEDULER,)
    scheduler_names = "Scheduler names of KAI"
    metadata_prefixes = ("kai.scheduler/",)

    def validate(self, job: ResolvedJob) -> Iterable[Finding]:
        """Yield invalid queue names, placements without a topology, and unexpected queues, gangs and schedulers."""
        yield from _placement_errors(job)
        yield from _warnings(job)

    def build(self, builder: JobSetBuilder) -> Iterable[Body]:
        """Set scheduler and queue of all pods, and the minimums of the grouper."""
        name_scheduler(builder, KAI_SCHEDULER)
        for pod_set in builder.pod_sets:
            queue = _queue(builder.job, pod_set)
            if queue:
                section(pod_set.template, "metadata", "labels")[KAI_QUEUE_LABEL] = queue
            if pod_set.min_count is not None and pod_set.min_count < pod_set.count:
                annotations = section(pod_set.job, "template", "metadata", "annotations")
                annotations.setdefault(KAI_MIN_MEMBER_ANNOTATION, str(max(pod_set.min_count, 1)))
        if _ordered(builder):
            builder.annotations.setdefault(KAI_MIN_MEMBER_ANNOTATION, _ONE_AT_A_TIME)
        return ()


def _placement_errors(job: ResolvedJob) -> Iterator[Finding]:
    for queue in sorted(_queues(job)):
        if not _QUEUE_NAME.fullmatch(queue):
            yield Finding(_QUEUE_PATH, f"{queue!r} is not a KAI queue name", _QUEUE_FIX)
    annotations = [("spec.annotations", {**(job.train_job.metadata.annotations or {}), **job.template.annotations})]
    annotations += [("spec.runtimeRef", _job_metadata(pod_set, "annotations")) for pod_set in job.pod_sets]
    for path, found in annotations:
        placements = [key for key in _PLACEMENTS if found.get(key)]
        if placements and not found.get(KAI_TOPOLOGY_ANNOTATION):
            yield Finding(
                f"{path}[{placements[0]}]",
                f"requires annotation {KAI_TOPOLOGY_ANNOTATION}, which names the topology of the level",
                f"also set {KAI_TOPOLOGY_ANNOTATION} to the name of a Topology",
            )


def _warnings(job: ResolvedJob) -> Iterator[Finding]:
    queues = _queues(job)
    if not queues:
        yield Finding.warning(
            _QUEUE_PATH,
            f"no queue is set: KAI uses {_DEFAULT_QUEUE}",
            f"set podGroupPolicy.kai.queue in the runtime, or label the TrainJob {KAI_QUEUE_LABEL}",
        )
    elif len(queues) > 1:
        yield Finding.warning(
            _QUEUE_PATH,
            f"the pods of one gang name different queues: {', '.join(sorted(queues))}",
            f"name one queue in every replicatedJob of the runtime, or label the TrainJob {KAI_QUEUE_LABEL}",
        )
    if _ordered(job):
        yield Finding.warning(
            "spec.runtimeRef",
            "replicatedJobs depend on each other: KAI schedules each as a gang, but not all of them together",
            "none unless they must start together: in this case, remove dependsOn from the runtime",
        )
    for pod_set in job.pod_sets:
        scheduler = pod_set.pod.get("schedulerName") or KAI_SCHEDULER
        if scheduler != KAI_SCHEDULER:
            yield Finding.warning(
                "spec.runtimeRef",
                f'the pods of replicatedJob "{pod_set.name}" belong to a KAI gang but name "{scheduler}"',
                "remove schedulerName from the runtime unless KAI runs under that name",
            )


def _queue(job: ResolvedJob, pod_set: PodSet) -> str | None:
    """Return the queue of a pod set with the precedence of KAI; the policy of the runtime is last."""
    policy = job.pod_group_policy.of(Kai)
    return (
        job.template.labels.get(KAI_QUEUE_LABEL)
        or (job.train_job.metadata.labels or {}).get(KAI_QUEUE_LABEL)
        or pod_set.template.get("metadata", {}).get("labels", {}).get(KAI_QUEUE_LABEL)
        or (policy.queue if policy else None)
    )


def _queues(job: ResolvedJob) -> set[str]:
    return {queue for pod_set in job.pod_sets if (queue := _queue(job, pod_set))}


def _ordered(job: JobView) -> bool:
    return any(pod_set.job.get("dependsOn") for pod_set in job.pod_sets)


def _job_metadata(pod_set: PodSet, name: str) -> Body:
    found: Body = pod_set.job["template"].get("metadata", {}).get(name, {})
    return found


GANG_SCHEDULER: Final = Kai()
