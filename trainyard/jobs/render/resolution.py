"""Resolution: merge TrainJob, runtime and patches, and decide counts and resources of all pods."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from trainyard.api import Body, Runtime, TrainJob, TrainJobSpec
from trainyard.api.constants import ANCESTOR_LABEL, TRAINER
from trainyard.jobs.render.job_changes import ReplicatedJobChange, merge_changes
from trainyard.jobs.render.job_view import JobView
from trainyard.jobs.render.labels import merged_metadata
from trainyard.jobs.render.merge import merge_resources
from trainyard.jobs.render.pod_editing import copied, section
from trainyard.jobs.render.pod_set import PodSet, ancestor_of
from trainyard.jobs.render.removal import remove_replicated_job
from trainyard.jobs.render.resolved_job import ResolvedJob
from trainyard.jobs.render.result import RenderContext
from trainyard.jobs.render.template import Template, template_of

_LABELED: Final = (("template",), ("template", "spec", "template"))
"""Objects of a replicatedJob whose labels may contain the ancestor step."""


class Resolution(JobView):
    """The changes of a TrainJob merged into its runtime; frameworks then decide counts and resources.

    Parameters
    ----------
    changes
        Changes of overrides and patches, in the order in which they apply.
    """

    def __init__(
        self,
        train_job: TrainJob,
        spec: TrainJobSpec,
        runtime: Runtime,
        context: RenderContext,
        changes: Sequence[ReplicatedJobChange] = (),
    ) -> None:
        self.train_job = train_job
        self.spec = spec
        self.runtime = runtime
        self.context = context
        self._template = template_of(runtime)
        requested = spec.trainer
        resources = requested.resources_per_node if requested else None
        self._shared = not changes and resources is None
        self._job_set_spec = self._template.spec if self._shared else self._template.copy()
        if changes:
            merge_changes(self._job_set_spec, changes)
        self.pod_sets = [PodSet(job, self._runtime_count(job)) for job in self._job_set_spec.get("replicatedJobs", ())]
        trainer = self.trainer
        if trainer is not None and requested is not None and requested.num_nodes is not None:
            self.set_count(trainer.name, requested.num_nodes)
        if resources is not None:
            self._merge_resources(resources)

    @property
    def job_set_spec(self) -> Body:
        """The JobSet specification: the runtime's template with the changes of the TrainJob."""
        return self._job_set_spec

    def runtime_resources(self, name: str, container: str) -> Body | None:
        """Return a copy of a container's resources in the runtime, without the TrainJob's changes, or None if unset."""
        job = self._template.job(name)
        found = PodSet(job, 1).container(container) if job else None
        resources: Body | None = copied(found.get("resources")) if found else None
        return resources

    def set_count(self, name: str, count: int, min_count: int | None = None) -> None:
        """Set the number of pods of a replicatedJob.

        Parameters
        ----------
        min_count
            Pods that are required to start; None: all.
        """
        self.pod_sets = [
            PodSet(pod_set.job, count, min_count) if pod_set.name == name else pod_set for pod_set in self.pod_sets
        ]

    def set_resources(self, name: str, container: str, resources: Body | None) -> None:
        """Set the resources of a container in a replicatedJob; None stands for unset."""
        self._own()
        pod_set = self.pod_set(name)
        found = pod_set.container(container) if pod_set else None
        if found is None:
            return
        found.pop("resources", None)
        if resources is not None:
            found["resources"] = resources

    def set_ancestor(self, name: str, step: str | None) -> None:
        """Set the ancestor step of a replicatedJob; None: remove it."""
        self._own()
        pod_set = self.pod_set(name)
        if pod_set is None:
            return
        if step is not None:
            section(pod_set.job, "template", "metadata", "labels")[ANCESTOR_LABEL] = step
        else:
            for path in _LABELED:
                section(pod_set.job, *path).get("metadata", {}).get("labels", {}).pop(ANCESTOR_LABEL, None)
        self.set_count(name, pod_set.count, pod_set.min_count)

    def remove(self, name: str) -> None:
        """Remove a replicatedJob, with all references to it."""
        self._own()
        remove_replicated_job(self.job_set_spec, name)
        self.pod_sets = [pod_set for pod_set in self.pod_sets if pod_set.name != name]

    def resolved(self) -> ResolvedJob:
        """Return the resolved job."""
        labels, annotations = merged_metadata(self.spec, self._template)
        template = Template(self.job_set_spec, labels, annotations)
        return ResolvedJob(self.train_job, self.spec, self.runtime, self.context, template, tuple(self.pod_sets))

    def _merge_resources(self, requested: Body) -> None:
        """Merge resourcesPerNode into the training containers."""
        for pod_set in self.pod_sets:
            container = pod_set.main_container if pod_set.ancestor == TRAINER else None
            if container is not None:
                container["resources"] = merge_resources(container.get("resources", {}), copied(requested))

    def _runtime_count(self, job: Body) -> int:
        policy = self.runtime.spec.ml_policy if self.runtime.spec else None
        if policy is not None and ancestor_of(job) == TRAINER:
            return max(policy.num_nodes or 1, 1)
        return max(int(job["template"]["spec"].get("parallelism", 1)), 1)

    def _own(self) -> None:
        """Copy the specification of the runtime before the first change."""
        if not self._shared:
            return
        self._shared = False
        self._job_set_spec = self._template.copy()
        jobs = self.job_set_spec.get("replicatedJobs", ())
        self.pod_sets = [
            PodSet(job, pod_set.count, pod_set.min_count) for pod_set, job in zip(self.pod_sets, jobs, strict=True)
        ]
