"""Volcano: a PodGroup, and pods that refer to it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, ClassVar, Final

from pydantic import Field

from trainyard.api import Body, KubernetesModel
from trainyard.api.constants import (
    GROUP_NAME_ANNOTATION,
    QUEUE_ANNOTATION,
    SYSTEM_PRIORITY_CLASSES,
    VOLCANO_GROUP_NAME_ANNOTATION,
    VOLCANO_SCHEDULER,
)
from trainyard.api.kubernetes_model import Int32
from trainyard.api.markers import list_map
from trainyard.checks.finding import Finding
from trainyard.jobs.render.dns import is_subdomain
from trainyard.jobs.render.gangs.base import Child, GangScheduler, name_scheduler
from trainyard.jobs.render.gangs.volcano_requests import (
    ANNOTATIONS,
    MINIMUMS_ANNOTATION,
    MINIMUMS_PATH,
    check_requests,
    group_sources,
    requested_groups,
    requested_minimums,
)
from trainyard.jobs.render.gangs.volcano_subgroups import (
    SubGroupPolicy,
    check_subgroups,
    subgroup_policies,
    warn_subgroups,
)
from trainyard.jobs.render.gangs.volcano_task_minimums import check_task_minimums, name_tasks
from trainyard.jobs.render.gangs.volcano_topology import (
    NetworkTopology,
    check_topology,
    network_topology,
    warn_topology,
)
from trainyard.jobs.render.job_set_builder import JobSetBuilder
from trainyard.jobs.render.pod_editing import section
from trainyard.jobs.render.pod_set import PodSet
from trainyard.jobs.render.resolved_job import ResolvedJob

_QUEUE_PATH: Final = f"spec.annotations[{QUEUE_ANNOTATION}]"
_QUEUE_FIX: Final = (
    f"set annotation {QUEUE_ANNOTATION} in spec.runtimePatches[].trainingRuntimeSpec.template.metadata to a leaf queue"
)
_GROUP_NAMES: Final = (GROUP_NAME_ANNOTATION, VOLCANO_GROUP_NAME_ANNOTATION)


class VolcanoPolicy(KubernetesModel):
    """The Volcano scheduler."""

    network_topology: NetworkTopology | None = None
    """Placement in the fabric."""
    sub_group_policy: Annotated[
        list[SubGroupPolicy] | None, Field(max_length=16, json_schema_extra=list_map("name"))
    ] = None
    """Groups of pods that are placed together, by replicatedJob."""
    min_task_member: Annotated[dict[str, Annotated[Int32, Field(ge=0)]] | None, Field(max_length=16)] = None
    """Minimum number of pods to start, by replicatedJob; their sum is at most minMember."""


class VolcanoGangs(GangScheduler[VolcanoPolicy]):
    """The Volcano scheduler."""

    name = "volcano"
    order = 20
    summary = "Volcano."
    policy_model = VolcanoPolicy
    schedulers = (VOLCANO_SCHEDULER,)
    stack_schedulers: ClassVar[Mapping[str, str] | None] = {"field": "schedulerNames"}
    scheduler_names = "Scheduler names of Volcano"
    metadata_prefixes = ("scheduling.", "volcano.sh/")
    child = Child(
        "scheduling.volcano.sh",
        "v1beta1",
        "podgroups",
        "PodGroup",
        optional=False,
        requested=("subGroupPolicy", "minTaskMember"),
    )
    member_annotation = GROUP_NAME_ANNOTATION
    requests = ANNOTATIONS

    def validate(self, job: ResolvedJob) -> Iterable[Finding]:
        """Yield invalid queue names, missing priority classes, topology limits that cannot be enforced, and warnings.

        Warnings: members with another scheduler, ignored priority classes, and ignored topology requests.
        """
        queue = job.template.annotations.get(QUEUE_ANNOTATION)
        if queue == "":
            yield Finding(_QUEUE_PATH, "Volcano queue name must not be empty", _QUEUE_FIX)
        elif queue and not is_subdomain(queue):
            yield Finding(_QUEUE_PATH, f"{queue!r} is not a Volcano queue name", _QUEUE_FIX)
        known = job.context.priority_classes
        if known is not None:
            for name in sorted(set(_priority_classes(job.pod_sets)) - known - SYSTEM_PRIORITY_CLASSES):
                yield Finding(
                    "spec.templateSpec.priorityClassName",
                    f'PriorityClass "{name}" doesn\'t exist',
                    f"create it, or name an existing one ({', '.join(sorted(known)) or 'there is none'})",
                )
        policy = self.policy(job) or VolcanoPolicy()
        topology = policy.network_topology
        of_runtime = policy.sub_group_policy or []
        groups = requested_groups(job, of_runtime)
        yield from check_topology(job, topology)
        yield from check_requests(job, of_runtime)
        if groups:
            yield from check_subgroups(job, groups, topology, group_sources(job))
        if minimums := requested_minimums(job, policy.min_task_member or {}):
            requested = MINIMUMS_ANNOTATION in job.template.annotations
            yield from check_task_minimums(job, minimums, *((MINIMUMS_PATH, MINIMUMS_ANNOTATION) if requested else ()))
        for pod_set in job.members:
            scheduler = pod_set.pod.get("schedulerName") or VOLCANO_SCHEDULER
            if scheduler != VOLCANO_SCHEDULER:
                yield Finding.warning(
                    "spec.runtimeRef",
                    f'the pods of replicatedJob "{pod_set.name}" belong to a Volcano gang but name "{scheduler}"',
                    "remove schedulerName from the runtime unless Volcano runs under that name",
                )
        classes = list(_priority_classes(job.members))
        if len(set(classes)) > 1:
            yield Finding.warning(
                "spec.templateSpec.priorityClassName",
                f"a gang has one PriorityClass, and the last of {', '.join(classes)} is used",
                "name the same priorityClassName in every replicatedJob of the runtime",
            )
        yield from warn_topology(job, topology)
        yield from warn_subgroups(job, groups, topology)

    def build(self, builder: JobSetBuilder) -> Iterable[Body]:
        """Set scheduler and queue of all pods, and the PodGroup of the members; return the PodGroup."""
        queue = builder.job.queue
        name_scheduler(builder, VOLCANO_SCHEDULER)
        for pod_set in builder.pod_sets:
            annotations = pod_set.template.get("metadata", {}).get("annotations", {})
            for key in _GROUP_NAMES:
                annotations.pop(key, None)
        for pod_set in builder.members:
            section(pod_set.template, "metadata", "annotations").update(dict.fromkeys(_GROUP_NAMES, builder.name))
        if queue:
            for pod_set in builder.pod_sets:
                section(pod_set.template, "metadata", "annotations")[QUEUE_ANNOTATION] = queue
            builder.annotations[QUEUE_ANNOTATION] = queue
        return (self._pod_group(builder),)

    def _pod_group(self, builder: JobSetBuilder) -> Body:
        gang, queue, policy = builder.job.gang, builder.job.queue, self.policy(builder) or VolcanoPolicy()
        spec: Body = {"minMember": gang.min_member, "minResources": gang.resource_list()}
        if queue:
            spec["queue"] = queue
        classes = list(_priority_classes(builder.job.members))
        if classes:
            spec["priorityClassName"] = classes[-1]
        topology = network_topology(builder, policy.network_topology)
        if topology:
            spec["networkTopology"] = topology
        if groups := requested_groups(builder.job, policy.sub_group_policy or []):
            spec["subGroupPolicy"] = subgroup_policies(builder, groups)
        if minimums := requested_minimums(builder.job, policy.min_task_member or {}):
            spec["minTaskMember"] = dict(sorted(minimums.items()))
            name_tasks(builder, minimums)
        return {
            "apiVersion": self.child.api_version,
            "kind": self.child.kind,
            "metadata": builder.metadata(builder.name),
            "spec": spec,
        }


def _priority_classes(pod_sets: Iterable[PodSet]) -> Iterator[str]:
    return (name for pod_set in pod_sets if (name := pod_set.pod.get("priorityClassName")))


GANG_SCHEDULER: Final = VolcanoGangs()
