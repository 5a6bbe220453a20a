"""Resolved job: a TrainJob merged with its runtime; pod counts, resources, dependencies and the gang are final."""

from __future__ import annotations

from dataclasses import dataclass

from trainyard.api import Body, Runtime, TrainJob, TrainJobSpec
from trainyard.api.constants import QUEUE_ANNOTATION
from trainyard.jobs.render.gang_members import Gang, gang_of, members_of
from trainyard.jobs.render.job_view import JobView
from trainyard.jobs.render.lazy_property import LazyProperty
from trainyard.jobs.render.pod_set import PodSet
from trainyard.jobs.render.result import RenderContext
from trainyard.jobs.render.template import Template


@dataclass(frozen=True, eq=False)
class ResolvedJob(JobView):
    """What a TrainJob runs: the input of validation and of building.

    Parameters
    ----------
    template
        The JobSet template of the runtime with the changes of the TrainJob; must not be modified.
    pod_sets
        Its pod sets with their final counts.
    """

    train_job: TrainJob
    spec: TrainJobSpec
    runtime: Runtime
    context: RenderContext
    template: Template
    pod_sets: tuple[PodSet, ...]

    @property
    def job_set_spec(self) -> Body:
        """The JobSet specification of the template; must not be modified."""
        return self.template.spec

    @property
    def queue(self) -> str | None:
        """Volcano queue: set by TrainJob or runtime, otherwise the default queue of the tenant."""
        return self.template.annotations.get(QUEUE_ANNOTATION) or self.context.default_queue

    @LazyProperty
    def members(self) -> tuple[PodSet, ...]:
        """Pod sets that belong to the gang, in the order of the runtime."""
        names = members_of(self.job_set_spec, self.pod_sets)
        return tuple(pod_set for pod_set in self.pod_sets if pod_set.name in names)

    @LazyProperty
    def gang(self) -> Gang:
        """Gang of the pods."""
        return gang_of(self.job_set_spec, self.pod_sets)
