"""View of a TrainJob with its runtime and pod sets; all stages of rendering can read it."""

from __future__ import annotations

from collections.abc import Sequence

from trainyard.api import Body, MLPolicy, PodGroupPolicy, Runtime, TrainJob, TrainJobSpec
from trainyard.api.constants import KUEUE_QUEUE_LABEL, TRAINER
from trainyard.jobs.render.pod_set import PodSet
from trainyard.jobs.render.result import RenderContext


class JobView:
    """A TrainJob, its runtime, and the merged JobSet specification with its pod sets.

    Base of the three stages: `Resolution` decides, `ResolvedJob` is the decision, `JobSetBuilder` makes the objects.
    """

    train_job: TrainJob
    spec: TrainJobSpec
    """Specification of the TrainJob."""
    runtime: Runtime
    context: RenderContext
    """Facts about the cluster."""
    pod_sets: Sequence[PodSet]
    """Pod sets, in the order of the runtime."""

    @property
    def name(self) -> str:
        """Name of the TrainJob and of its JobSet."""
        return self.train_job.metadata.name

    @property
    def namespace(self) -> str:
        """Namespace of the TrainJob and of its objects."""
        return self.train_job.metadata.namespace or "default"

    @property
    def kueue_queue(self) -> str | None:
        """LocalQueue of Kueue, which then admits the job, or None if Kueue does not manage it."""
        return (self.train_job.metadata.labels or {}).get(KUEUE_QUEUE_LABEL) or None

    @property
    def ml_policy(self) -> MLPolicy:
        """Framework policy of the runtime; empty if unset."""
        return (self.runtime.spec.ml_policy if self.runtime.spec else None) or MLPolicy()

    @property
    def pod_group_policy(self) -> PodGroupPolicy:
        """Gang policy of the runtime; empty if unset."""
        return (self.runtime.spec.pod_group_policy if self.runtime.spec else None) or PodGroupPolicy()

    @property
    def job_set_spec(self) -> Body:
        """The JobSet specification: the runtime's template with the changes of the TrainJob."""
        raise NotImplementedError

    @property
    def trainer(self) -> PodSet | None:
        """Training pods: the first replicatedJob with the ancestor step of the trainer."""
        for pod_set in self.pod_sets:
            if pod_set.ancestor == TRAINER:
                return pod_set
        return None

    def pod_set(self, name: str) -> PodSet | None:
        """Return the pod set of a replicatedJob."""
        for pod_set in self.pod_sets:
            if pod_set.name == name:
                return pod_set
        return None
