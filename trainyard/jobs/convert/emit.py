"""Emit the TrainJob and its own runtime from a draft."""

from __future__ import annotations

from typing import Final

from trainyard.api import Body
from trainyard.api.constants import (
    ANCESTOR_LABEL,
    API_VERSION,
    CLUSTER_TRAINING_RUNTIME,
    FRAMEWORK_LABEL,
    GROUP,
    KUEUE_QUEUE_LABEL,
    QUEUE_ANNOTATION,
    TRAIN_JOB,
    TRAINER,
    TRAINING_RUNTIME,
)
from trainyard.jobs.convert.draft import Draft
from trainyard.jobs.convert.part import Part

MANAGER: Final = "convert.trainyard.dev/job"
"""Manager of the runtime patch with job-specific settings."""


def own_runtime(draft: Draft) -> Body:
    """Return a TrainingRuntime with the pod templates."""
    policy = dict(draft.policy)
    # Kueue would count so many launchers; the TrainJob names the number anyway.
    if draft.nodes is not None and not ("mpi" in policy and KUEUE_QUEUE_LABEL in draft.labels):
        policy = {"numNodes": draft.nodes, **policy}
    spec: Body = {"mlPolicy": policy}
    if draft.gang:
        spec["podGroupPolicy"] = draft.gang
    jobs = [_replicated_job(part) for part in draft.parts]
    spec["template"] = {"spec": {**draft.job_set, "replicatedJobs": jobs}}
    metadata = {**_place(draft), "labels": {FRAMEWORK_LABEL: draft.framework}}
    return {"apiVersion": API_VERSION, "kind": TRAINING_RUNTIME, "metadata": metadata, "spec": spec}


def train_job(
    draft: Draft, *, runtime: str | None = None, trainer: Body | None = None, pods: Body | None = None
) -> Body:
    """Return the TrainJob.

    Parameters
    ----------
    runtime
        Name of a cluster runtime; if unset, the draft's own runtime.
    trainer
        Further fields of the trainer.
    pods
        Patch of the trainer's replicatedJob, with its name.
    """
    metadata = _place(draft)
    for name, entries in (("labels", draft.labels), ("annotations", draft.annotations)):
        if entries:
            metadata[name] = dict(entries)
    kind, name = (TRAINING_RUNTIME, draft.name) if runtime is None else (CLUSTER_TRAINING_RUNTIME, runtime)
    spec: Body = {"runtimeRef": {"apiGroup": GROUP, "kind": kind, "name": name}}
    asked = {**(trainer or {})}
    elastic = draft.policy.get("torch", {}).get("elasticPolicy")
    if draft.nodes is not None:
        asked["numNodes"] = draft.nodes
    elif elastic and KUEUE_QUEUE_LABEL in draft.labels:
        asked["numNodes"] = elastic["maxNodes"]  # Kueue ignores the policy
    if draft.processes is not None:
        asked["numProcPerNode"] = draft.processes
    if asked:
        spec["trainer"] = asked
    if patch := _patch(draft, pods):
        spec["runtimePatches"] = [{"manager": MANAGER, "trainingRuntimeSpec": {"template": patch}}]
    for field, value in (
        ("suspend", draft.suspend),
        ("activeDeadlineSeconds", draft.deadline),
        ("managedBy", draft.managed_by),
    ):
        if value is not None:
            spec[field] = value
    return {"apiVersion": API_VERSION, "kind": TRAIN_JOB, "metadata": metadata, "spec": spec}


def _place(draft: Draft) -> Body:
    metadata: Body = {"name": draft.name}
    if draft.namespace is not None:
        metadata["namespace"] = draft.namespace
    return metadata


def _patch(draft: Draft, pods: Body | None) -> Body:
    patch: Body = {}
    if draft.queue is not None:
        patch["metadata"] = {"annotations": {QUEUE_ANNOTATION: draft.queue}}
    if pods is not None:
        patch["spec"] = {"replicatedJobs": [pods]}
    return patch


def _replicated_job(part: Part) -> Body:
    job: Body = {"name": part.name}
    if part.waits_for:
        job["dependsOn"] = [{"name": name, "status": status} for name, status in part.waits_for]
    if part.replicas != 1:
        job["replicas"] = part.replicas
    template: Body = {}
    spec: Body = dict(part.job)
    if part.trains:
        template["metadata"] = {"labels": {ANCESTOR_LABEL: TRAINER}}
    else:
        spec |= {"parallelism": part.pods, "completions": part.pods}
    job["template"] = {**template, "spec": {**spec, "template": part.template}}
    return job
