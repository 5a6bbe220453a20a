"""What a case is: a runtime, a TrainJob, and what is done to the TrainJob later."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Body = dict[str, Any]
GROUP = "trainer.kubeflow.org/v1alpha1"
ANCESTOR = "trainer.kubeflow.org/trainjob-ancestor-step"
QUEUE = "scheduling.volcano.sh/queue-name"


@dataclass(frozen=True)
class Update:
    """A change of a stored TrainJob.

    Parameters
    ----------
    patch
        JSON merge patch.
    active
        ReplicatedJobs whose pods run while the change is asked for.
    """

    patch: Body
    active: tuple[str, ...] = ()


@dataclass(frozen=True)
class Case:
    """One question to both sides.

    Parameters
    ----------
    name
        Names the case and its namespace.
    runtime
        The runtime as a manifest, named by the TrainJob or not; None where there is none.
    train_job
        The TrainJob as a manifest.
    updates
        Changes of the TrainJob, one after the other.
    runtime_update
        JSON merge patch of the runtime, reviewed after its creation.
    """

    name: str
    runtime: Body | None
    train_job: Body
    updates: tuple[Update, ...] = ()
    runtime_update: Body | None = None

    def documents(self) -> list[Body]:
        """Return the manifests of the case."""
        return [copy.deepcopy(body) for body in (self.runtime, self.train_job) if body is not None]


@dataclass
class Draft:
    """A case in the making: specifications without names."""

    name: str
    runtime_spec: Body | None
    spec: Body
    job_name: str = "job"
    runtime_name: str | None = None
    cluster: bool = False
    runtime_labels: dict[str, str] = field(default_factory=dict)
    metadata: Body = field(default_factory=dict)
    updates: tuple[Update, ...] = ()
    runtime_update: Body | None = None

    def case(self) -> Case:
        """Return the finished case; everything lives in a namespace of its own."""
        kind = "ClusterTrainingRuntime" if self.cluster else "TrainingRuntime"
        runtime_name = self.runtime_name or (f"{self.name}-runtime" if self.cluster else "runtime")
        runtime: Body | None = None
        if self.runtime_spec is not None:
            scope = {} if self.cluster else {"namespace": self.name}
            labels = {"labels": self.runtime_labels} if self.runtime_labels else {}
            metadata = {"name": runtime_name, **scope, **labels}
            runtime = {"apiVersion": GROUP, "kind": kind, "metadata": metadata, "spec": self.runtime_spec}
        metadata = {"name": self.job_name, "namespace": self.name, **self.metadata}
        spec = {"runtimeRef": {"name": runtime_name, "kind": kind}, **self.spec}
        job = {"apiVersion": GROUP, "kind": "TrainJob", "metadata": metadata, "spec": spec}
        return Case(self.name, runtime, job, self.updates, self.runtime_update)


def container(name: str = "node", **fields: Any) -> Body:
    """Return a container."""
    return {"name": name, "image": f"{name}:1", **fields}


def replicated_job(
    name: str,
    *,
    ancestor: str | None = None,
    containers: list[Body] | None = None,
    pod: Mapping[str, Any] | None = None,
    job: Mapping[str, Any] | None = None,
    pod_metadata: Body | None = None,
    metadata: Body | None = None,
    **fields: Any,
) -> Body:
    """Return a replicatedJob; ``pod`` and ``job`` are further fields of the Pod and Job specifications."""
    template: Body = {"spec": {"containers": containers or [container(name)], **(pod or {})}}
    if pod_metadata:
        template["metadata"] = pod_metadata
    body: Body = {"spec": {"template": template, **(job or {})}}
    labels = {ANCESTOR: ancestor} if ancestor else {}
    about = dict(metadata or {})
    if labels or about:
        body["metadata"] = {**about, "labels": {**about.get("labels", {}), **labels}}
        if not body["metadata"]["labels"]:
            del body["metadata"]["labels"]
    return {"name": name, **fields, "template": body}


def trainer(**fields: Any) -> Body:
    """Return the replicatedJob that trains."""
    return replicated_job("node", ancestor="trainer", **fields)


def initializer(kind: str, *, mounted: bool = True, **fields: Any) -> Body:
    """Return the replicatedJob that loads the dataset or the model."""
    name = f"{kind}-initializer"
    mounts = [{"name": "initializer", "mountPath": "/workspace"}] if mounted else []
    volumes = [{"name": "initializer", "persistentVolumeClaim": {"claimName": "data"}}] if mounted else []
    own = container(name, **({"volumeMounts": mounts} if mounts else {}))
    return replicated_job(name, ancestor=name, containers=[own], pod={"volumes": volumes} if volumes else {}, **fields)


def runtime_spec(*jobs: Body, jobset: Body | None = None, metadata: Body | None = None, **spec: Any) -> Body:
    """Return a runtime's specification; keyword arguments are mlPolicy and podGroupPolicy."""
    template: Body = {"spec": {"replicatedJobs": list(jobs), **(jobset or {})}}
    if metadata:
        template["metadata"] = metadata
    return {**spec, "template": template}


def patch(*jobs: Body, manager: str = "acme.io/team", metadata: Body | None = None, **fields: Any) -> Body:
    """Return a runtime patch."""
    template: Body = {"metadata": metadata} if metadata else {}
    if jobs:
        template["spec"] = {"replicatedJobs": list(jobs)}
    return {"manager": manager, "trainingRuntimeSpec": {"template": template}, **fields}


def pod_patch(
    name: str = "node", *, metadata: Body | None = None, job_metadata: Body | None = None, **spec: Any
) -> Body:
    """Return the patch of one replicatedJob's pods."""
    template: Body = {}
    if metadata:
        template["metadata"] = metadata
    if spec:
        template["spec"] = spec
    job: Body = {"spec": {"template": template}} if template else {}
    if job_metadata:
        job["metadata"] = job_metadata
    return {"name": name, "template": job}
