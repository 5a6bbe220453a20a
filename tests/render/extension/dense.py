"""A gang scheduler of the test: one file makes it known everywhere."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

from pydantic import Field

from trainyard.api.kubernetes_model import Body, KubernetesModel
from trainyard.jobs.render.gangs.base import Child, GangScheduler, name_scheduler
from trainyard.jobs.render.job_set_builder import JobSetBuilder
from trainyard.jobs.render.pod_editing import section

_LABEL = "dense.example.com/group"


class DensePolicy(KubernetesModel):
    """The dense scheduler."""

    spread: Annotated[int, Field(ge=1)] = 1
    """Nodes a gang may span."""


class Dense(GangScheduler[DensePolicy]):
    """The dense scheduler."""

    name = "dense"
    order = 990
    summary = "Dense."
    policy_model = DensePolicy
    added = "a scheduler of the test"
    schedulers = ("dense-scheduler",)
    scheduler_names = "Names under which the dense scheduler runs"
    metadata_prefixes = ("dense.example.com/",)
    child = Child("dense.example.com", "v1", "groups", "Group", optional=True)
    member_label = _LABEL

    def build(self, builder: JobSetBuilder) -> Iterable[Body]:
        """Label the members, and return the group."""
        name_scheduler(builder, self.schedulers[0])
        for pod_set in builder.members:
            section(pod_set.template, "metadata", "labels")[_LABEL] = builder.name
        policy = self.policy(builder)
        yield {
            "apiVersion": "dense.example.com/v1",
            "kind": "Group",
            "metadata": builder.metadata(builder.name),
            "spec": {"minMember": builder.job.gang.min_member, "spread": policy.spread if policy else 1},
        }


GANG_SCHEDULER = Dense()
