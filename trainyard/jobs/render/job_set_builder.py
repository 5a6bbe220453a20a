"""Builder of a JobSet: frameworks, gang schedulers and the TrainJob's settings modify its copy of the template."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from trainyard.api import Body
from trainyard.api.constants import (
    ANCESTOR_CONTAINERS,
    JOB_SET_API_VERSION,
    QUEUE_ANNOTATION,
    VOLCANO_SCHEDULER,
)
from trainyard.jobs.render.job_view import JobView
from trainyard.jobs.render.owned_metadata import owned_metadata
from trainyard.jobs.render.pod_editing import section
from trainyard.jobs.render.pod_set import PodSet
from trainyard.jobs.render.resolved_job import ResolvedJob


class JobSetBuilder(JobView):
    """JobSet of a resolved job; its counts are set from the start.

    Parameters
    ----------
    job
        The resolved job; not modified.
    """

    def __init__(self, job: ResolvedJob) -> None:
        self.job = job
        """The resolved job."""
        self.train_job = job.train_job
        self.spec = job.spec
        self.runtime = job.runtime
        self.context = job.context
        self._job_set_spec = job.template.copy()
        self.labels = dict(job.template.labels)
        """Labels of the JobSet."""
        self.annotations = dict(job.template.annotations)
        """Annotations of the JobSet."""
        trainer = job.spec.trainer
        self.command: Sequence[str] | None = trainer.command if trainer else None
        """Command of the training containers, or None for that of the template."""
        self.args: Sequence[str] | None = trainer.args if trainer else None
        """Arguments of the training containers, or None for that of the template."""
        bodies = self.job_set_spec.get("replicatedJobs", ())
        self.pod_sets = tuple(
            PodSet(body, pod_set.count, pod_set.min_count) for pod_set, body in zip(job.pod_sets, bodies, strict=True)
        )

    @property
    def job_set_spec(self) -> Body:
        """The JobSet specification: the template with the changes of framework, TrainJob and gang scheduler."""
        return self._job_set_spec

    @property
    def members(self) -> Iterator[PodSet]:
        """Pod sets that belong to the gang, in the order of the runtime."""
        names = {pod_set.name for pod_set in self.job.members}
        return (pod_set for pod_set in self.pod_sets if pod_set.name in names)

    def metadata(self, name: str) -> Body:
        """Return the metadata of an object that is owned by the TrainJob."""
        return owned_metadata(self.train_job, name)

    def set_counts(self) -> None:
        """Set the number of pods of each replicatedJob; completions equal parallelism."""
        for pod_set in self.pod_sets:
            if pod_set.ancestor in ANCESTOR_CONTAINERS:
                pod_set.job["replicas"] = 1
            job = section(pod_set.job, "template", "spec")
            job["parallelism"] = pod_set.count
            job["completions"] = pod_set.count

    def place_in_queue(self) -> None:
        """Set the tenant's queue on pods that Volcano schedules without a gang, unless the runtime sets one."""
        queue = self.job.queue
        if not queue:
            return
        for pod_set in self.pod_sets:
            if pod_set.pod.get("schedulerName") == VOLCANO_SCHEDULER:
                section(pod_set.template, "metadata", "annotations").setdefault(QUEUE_ANNOTATION, queue)

    def job_set(self) -> Body:
        """Return the JobSet; it contains everything that Kueue requires to rebuild the pod sets."""
        metadata = self.metadata(self.name)
        if self.labels:
            metadata["labels"] = dict(sorted(self.labels.items()))
        if self.annotations:
            metadata["annotations"] = dict(sorted(self.annotations.items()))
        spec = {**self.job_set_spec, "suspend": self.spec.suspend}
        return {"apiVersion": JOB_SET_API_VERSION, "kind": "JobSet", "metadata": metadata, "spec": spec}
