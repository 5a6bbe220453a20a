"""The working state of one rendering: the merged template, its pod sets, and what was found on the way."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from trainyard.api import Body, MLPolicy, PodGroupPolicy, Runtime, TrainJob, TrainJobSpec
from trainyard.api.constants import (
    ANCESTOR_CONTAINERS,
    ANCESTOR_LABEL,
    API_VERSION,
    QUEUE_ANNOTATION,
    TRAIN_JOB,
    TRAINER,
)
from trainyard.problem import Problem
from trainyard.render.bodies import copied, section
from trainyard.render.merge import merge_resources, strategic_merge
from trainyard.render.result import RenderContext

__all__ = ["Plan", "PodSet", "make_plan", "template_of"]


@dataclass
class PodSet:
    """The pods of one replicatedJob.

    Parameters
    ----------
    job
        The replicatedJob; changing it changes the JobSet.
    count
        Pods of one replica.
    least
        Pods that are enough to start, where an elastic job needs fewer than ``count``.
    """

    job: Body
    count: int
    least: int | None = None

    @property
    def name(self) -> str:
        """Return the name of the replicatedJob."""
        return str(self.job["name"])

    @property
    def ancestor(self) -> str | None:
        """Return the part of the TrainJob this replicatedJob takes, from the label of its Job template."""
        value = self.job["template"].get("metadata", {}).get("labels", {}).get(ANCESTOR_LABEL)
        return None if value is None else str(value)

    @property
    def replicas(self) -> int:
        """Return the number of Jobs: always one where a part of the TrainJob is taken."""
        return 1 if self.ancestor in ANCESTOR_CONTAINERS else int(self.job.get("replicas", 1))

    @property
    def pods(self) -> int:
        """Return the number of pods of all replicas."""
        return self.count * self.replicas

    @property
    def template(self) -> Body:
        """Return the pod template."""
        return section(self.job, "template", "spec", "template")

    @property
    def pod(self) -> Body:
        """Return the pod specification."""
        return section(self.template, "spec")

    def container(self, name: str, *, init: bool = False) -> Body | None:
        """Return a container by name; with ``init``, also an init container where no container has the name."""
        lists = ("containers", "initContainers") if init else ("containers",)
        found: Iterator[Any] = (entry for kind in lists for entry in self.pod.get(kind, ()) if entry["name"] == name)
        return next(found, None)


@dataclass
class Plan:
    """Everything frameworks and gang schedulers read and change."""

    train_job: TrainJob
    spec: TrainJobSpec
    runtime: Runtime
    context: RenderContext
    job_set_spec: Body
    pod_sets: list[PodSet]
    labels: dict[str, str]
    annotations: dict[str, str]
    warnings: list[Problem] = field(default_factory=list)

    @property
    def name(self) -> str:
        """Return the name of the TrainJob and of its objects."""
        return self.train_job.metadata.name

    @property
    def namespace(self) -> str:
        """Return the namespace of the TrainJob and of its objects."""
        return self.train_job.metadata.namespace or "default"

    @property
    def ml_policy(self) -> MLPolicy:
        """Return the framework policy, empty where the runtime has none."""
        return (self.runtime.spec.ml_policy if self.runtime.spec else None) or MLPolicy()

    @property
    def pod_group_policy(self) -> PodGroupPolicy:
        """Return the gang policy, empty where the runtime has none."""
        return (self.runtime.spec.pod_group_policy if self.runtime.spec else None) or PodGroupPolicy()

    @property
    def trainer(self) -> PodSet | None:
        """Return the pods that train: the first replicatedJob that takes the trainer's part."""
        return next((pod_set for pod_set in self.pod_sets if pod_set.ancestor == TRAINER), None)

    @property
    def queue(self) -> str | None:
        """Return the Volcano queue: named by the TrainJob or its runtime, else the tenant's default."""
        return self.annotations.get(QUEUE_ANNOTATION) or self.context.default_queue

    def pod_set(self, name: str) -> PodSet | None:
        """Return the pods of a replicatedJob."""
        return next((pod_set for pod_set in self.pod_sets if pod_set.name == name), None)

    def metadata(self, name: str) -> Body:
        """Return the metadata of an object that belongs to the TrainJob."""
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


def template_of(runtime: Runtime) -> Body:
    """Return a copy of the runtime's JobSet specification."""
    template = runtime.spec.template if runtime.spec else None
    body = copied(template.spec if template else None)
    return body if isinstance(body, dict) else {}


def make_plan(
    train_job: TrainJob, spec: TrainJobSpec, runtime: Runtime, template: Body, context: RenderContext
) -> Plan:
    """Merge the runtime patches into the template and split it into pod sets.

    Parameters
    ----------
    template
        The runtime's JobSet specification; it becomes part of the plan.
    """
    labels, annotations = _metadata(spec, runtime)
    merged = _merged(spec, template)
    plan = Plan(train_job, spec, runtime, context, merged, [], labels, annotations)
    for job in merged.get("replicatedJobs", ()):
        pod_set = PodSet(job, 1)
        pod_set.count = _count(plan, pod_set)
        if plan.trainer is None and pod_set.ancestor == TRAINER and spec.trainer and spec.trainer.num_nodes is not None:
            pod_set.count = spec.trainer.num_nodes
        plan.pod_sets.append(pod_set)
        _set_resources(spec, pod_set)
    return plan


def _metadata(spec: TrainJobSpec, runtime: Runtime) -> tuple[dict[str, str], dict[str, str]]:
    template = runtime.spec.template if runtime.spec else None
    sources = [template.metadata if template else None]
    for patch in spec.runtime_patches or ():
        patched = patch.training_runtime_spec.template if patch.training_runtime_spec else None
        sources.append(patched.metadata if patched else None)
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    for metadata in sources:
        if metadata:
            labels.update(metadata.labels or {})
            annotations.update(metadata.annotations or {})
    return labels, annotations


def _merged(spec: TrainJobSpec, template: Body) -> Body:
    order = {job["name"]: index for index, job in enumerate(template.get("replicatedJobs", ()))}
    merged = template
    for patch in spec.runtime_patches or ():
        target = patch.training_runtime_spec.template if patch.training_runtime_spec else None
        if target and target.spec:
            merged = strategic_merge(merged, copied(target.spec.body()))
    if "replicatedJobs" in merged:
        merged["replicatedJobs"] = sorted(merged["replicatedJobs"], key=lambda job: order.get(job["name"], len(order)))
    return merged


def _count(plan: Plan, pod_set: PodSet) -> int:
    if pod_set.ancestor == TRAINER and plan.runtime.spec and plan.runtime.spec.ml_policy:
        return max(plan.ml_policy.num_nodes or 1, 1)
    return max(int(pod_set.job["template"]["spec"].get("parallelism", 1)), 1)


def _set_resources(spec: TrainJobSpec, pod_set: PodSet) -> None:
    asked = spec.trainer.resources_per_node if spec.trainer else None
    container = pod_set.container(ANCESTOR_CONTAINERS[TRAINER]) if pod_set.ancestor == TRAINER else None
    if asked is not None and container is not None:
        container["resources"] = merge_resources(container.get("resources", {}), copied(asked))
