"""Coscheduling plug-in of scheduler-plugins: a PodGroup, and pods that are labeled with it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Final

from pydantic import Field

from trainyard.api import Body
from trainyard.api.kubernetes_model import Int32, KubernetesModel
from trainyard.checks.finding import Finding
from trainyard.jobs.render.gangs.base import Child, GangScheduler, name_scheduler
from trainyard.jobs.render.job_set_builder import JobSetBuilder
from trainyard.jobs.render.pod_editing import section
from trainyard.jobs.render.resolved_job import ResolvedJob
from trainyard.jobs.render.result import COSCHEDULING_SCHEDULER

COSCHEDULING_LABEL: Final = "scheduling.x-k8s.io/pod-group"
_DEFAULT_SCHEDULER: Final = "default-scheduler"


class CoschedulingPolicy(KubernetesModel):
    """The coscheduling plug-in of scheduler-plugins."""

    schedule_timeout_seconds: Annotated[Int32, Field(ge=0)] = 60
    """Timeout in seconds for scheduling all members of the gang."""


class Coscheduling(GangScheduler[CoschedulingPolicy]):
    """The coscheduling plug-in.

    The plug-in runs in the default scheduler, or in a second one, which the configuration names. A wrong name leaves
    pods pending. Therefore schedulerName is unset by default, as upstream leaves it.
    """

    name = "coscheduling"
    order = 10
    summary = "The coscheduling plug-in."
    policy_model = CoschedulingPolicy
    schedulers = (COSCHEDULING_SCHEDULER,)
    scheduler_names = "Names of schedulers with the coscheduling plug-in"
    metadata_prefixes = ("scheduling.",)
    child = Child("scheduling.x-k8s.io", "v1alpha1", "podgroups", "PodGroup")
    member_label = COSCHEDULING_LABEL

    def validate(self, job: ResolvedJob) -> Iterable[Finding]:
        """Yield a gang whose pods use different schedulers."""
        default = job.context.coscheduling_scheduler or _DEFAULT_SCHEDULER
        names = sorted({pod_set.pod.get("schedulerName") or default for pod_set in job.members})
        if len(names) > 1:
            yield Finding.warning(
                "spec.runtimeRef",
                f"the pods of one gang name different schedulers: {', '.join(names)}",
                "name one schedulerName in every replicatedJob of the runtime",
            )

    def build(self, builder: JobSetBuilder) -> Iterable[Body]:
        """Set the configured scheduler of all pods, label the members, and return the PodGroup."""
        if builder.context.coscheduling_scheduler is not None:
            name_scheduler(builder, builder.context.coscheduling_scheduler)
        for pod_set in builder.pod_sets:
            pod_set.template.get("metadata", {}).get("labels", {}).pop(COSCHEDULING_LABEL, None)
        for pod_set in builder.members:
            section(pod_set.template, "metadata", "labels")[COSCHEDULING_LABEL] = builder.name
        policy, gang = self.policy(builder) or CoschedulingPolicy(), builder.job.gang
        pod_group = {
            "apiVersion": self.child.api_version,
            "kind": self.child.kind,
            "metadata": builder.metadata(builder.name),
            "spec": {
                "minMember": max(gang.min_member, 1),
                "minResources": gang.resource_list(),
                "scheduleTimeoutSeconds": policy.schedule_timeout_seconds,
            },
        }
        return (pod_group,)


GANG_SCHEDULER: Final = Coscheduling()
