"""Working state of rendering: the merged template, its pod sets, and warnings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from trainyard.api import Body, MLPolicy, PodGroupPolicy, Runtime, TrainJob, TrainJobSpec
from trainyard.api.constants import API_VERSION, QUEUE_ANNOTATION, TRAIN_JOB, TRAINER
from trainyard.checks.finding import Finding
from trainyard.render.gang_members import Gang, gang_of
from trainyard.render.job_changes import Change, merge_changes
from trainyard.render.labels import merged_metadata
from trainyard.render.merge import merge_resources
from trainyard.render.pod_editing import copied
from trainyard.render.pod_set import PodSet
from trainyard.render.result import RenderContext
from trainyard.render.template import Template

__all__ = ["Plan", "PodSet", "make_plan"]


@dataclass
class Plan:
    """State that frameworks and gang schedulers read and modify."""

    train_job: TrainJob
    spec: TrainJobSpec
    runtime: Runtime
    context: RenderContext
    job_set_spec: Body
    pod_sets: list[PodSet]
    labels: dict[str, str]
    annotations: dict[str, str]
    warnings: list[Finding] = field(default_factory=list)
    _pods_frozen: bool = False
    _gang: Gang | None = None

    @property
    def name(self) -> str:
        """Name of the TrainJob and of its JobSet."""
        return self.train_job.metadata.name

    @property
    def namespace(self) -> str:
        """Namespace of the TrainJob and of its objects."""
        return self.train_job.metadata.namespace or "default"

    @property
    def ml_policy(self) -> MLPolicy:
        """Framework policy of the runtime; empty if unset."""
        return (self.runtime.spec.ml_policy if self.runtime.spec else None) or MLPolicy()

    @property
    def pod_group_policy(self) -> PodGroupPolicy:
        """Gang policy of the runtime; empty if unset."""
        return (self.runtime.spec.pod_group_policy if self.runtime.spec else None) or PodGroupPolicy()

    @property
    def trainer(self) -> PodSet | None:
        """Training pods: the first replicatedJob with the ancestor step of the trainer."""
        return next((pod_set for pod_set in self.pod_sets if pod_set.ancestor == TRAINER), None)

    @property
    def gang(self) -> Gang:
        """Gang of the pods; cached after `freeze_pods`."""
        if self._gang is not None:
            return self._gang
        found = gang_of(self.job_set_spec, self.pod_sets)
        if self._pods_frozen:
            self._gang = found
        return found

    def freeze_pods(self) -> None:
        """Declare that counts, resources and dependencies of pods no longer change."""
        self._pods_frozen, self._gang = True, None

    @property
    def queue(self) -> str | None:
        """Volcano queue: set by TrainJob or runtime, otherwise the default queue of the tenant."""
        return self.annotations.get(QUEUE_ANNOTATION) or self.context.default_queue

    def pod_set(self, name: str) -> PodSet | None:
        """Return the pod set of a replicatedJob."""
        return next((pod_set for pod_set in self.pod_sets if pod_set.name == name), None)

    def metadata(self, name: str) -> Body:
        """Return the metadata of an object that is owned by the TrainJob."""
        metadata: Body = {"name": name, "namespace": self.namespace}
        if self.train_job.metadata.uid:
            metadata["ownerReferences"] = [
                {
                    "apiVersion": API_VERSION,
                    "blockOwnerDeletion": True,
                    "controller": True,
                    "kind": TRAIN_JOB,
                    "name": self.name,
                    "uid": self.train_job.metadata.uid,
                }
            ]
        return metadata


def make_plan(
    train_job: TrainJob,
    spec: TrainJobSpec,
    runtime: Runtime,
    template: Template,
    changes: Sequence[Change],
    context: RenderContext,
) -> Plan:
    """Merge the changes of a TrainJob into a copy of the template, and split it into pod sets.

    Parameters
    ----------
    template
        The runtime's template.
    changes
        Changes of overrides and patches, in the order in which they apply.
    """
    merged = template.copy()
    merge_changes(merged, changes)
    labels, annotations = merged_metadata(spec, template)
    plan = Plan(train_job, spec, runtime, context, merged, [], labels, annotations)
    trainer_seen = False
    for job in merged.get("replicatedJobs", ()):
        pod_set = PodSet(job, 1)
        trains = pod_set.ancestor == TRAINER
        pod_set.count = _count(plan, pod_set, trains)
        if trains and not trainer_seen and spec.trainer and spec.trainer.num_nodes is not None:
            pod_set.count = spec.trainer.num_nodes
        if trains:
            trainer_seen = True
            _set_resources(spec, pod_set)
        plan.pod_sets.append(pod_set)
    return plan


def _count(plan: Plan, pod_set: PodSet, trains: bool) -> int:
    if trains and plan.runtime.spec and plan.runtime.spec.ml_policy:
        return max(plan.ml_policy.num_nodes or 1, 1)
    return max(int(pod_set.job["template"]["spec"].get("parallelism", 1)), 1)


def _set_resources(spec: TrainJobSpec, pod_set: PodSet) -> None:
    requested = spec.trainer.resources_per_node if spec.trainer else None
    container = pod_set.main_container
    if requested is not None and container is not None:
        container["resources"] = merge_resources(container.get("resources", {}), copied(requested))
