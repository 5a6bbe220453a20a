"""Causes in runtimes: missing or deprecated."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from trainyard.api.constants import (
    CLUSTER_TRAINING_RUNTIME,
    GROUP,
    SUPPORT_DEPRECATED,
    SUPPORT_LABEL,
    TRAINING_RUNTIME,
)
from trainyard.cluster_state.body_fields import mapping, name_of, text
from trainyard.cluster_state.observed import Kind
from trainyard.insight.explain.cause import Cause, Family, Found
from trainyard.insight.explain.job_state import JobState

_KINDS: Final = {TRAINING_RUNTIME: Kind.RUNTIME, CLUSTER_TRAINING_RUNTIME: Kind.CLUSTER_RUNTIME}

MISSING: Final = Cause(
    "runtime-missing",
    "Missing runtime",
    "`spec.runtimeRef` of the TrainJob; the runtimes",
    "{kind} {name} does not exist, so the controller creates no JobSet",
    "delete the job and create it with one of {runtimes}, or ask the platform team to install {name}",
    {"kind": "ClusterTrainingRuntime", "name": "torch-distrbuted", "runtimes": ["plain", "torch-distributed"]},
)
DEPRECATED: Final = Cause(
    "runtime-deprecated",
    "Deprecated runtime",
    "label `trainer.kubeflow.org/support` of the runtime",
    "{kind} {name} is deprecated{removal}",
    "use another runtime for the next job; `trainyard runtimes list` shows them",
    {"kind": "ClusterTrainingRuntime", "name": "torch-distributed-1.0", "removal": " and is removed after 2027-01-31"},
)


def _find(job_state: JobState) -> Iterator[Found]:
    job = job_state.train_job
    reference = mapping(job, "spec", "runtimeRef")
    if job is None or job_state.ended or text(reference, "apiGroup") not in ("", GROUP):
        return
    kind, name = text(reference, "kind") or CLUSTER_TRAINING_RUNTIME, text(reference, "name")
    resource = _KINDS.get(kind)
    if resource is None or not job_state.index.knows(resource):
        return
    namespace = job_state.namespace if kind == TRAINING_RUNTIME else ""
    runtime = job_state.index.find(resource, name, namespace)
    if runtime is None:
        if job_state.job_set is None and job_state.reads(Kind.JOB_SET):
            yield MISSING.found(kind=kind, name=name, runtimes=_names(job_state))
        return
    if text(runtime, "metadata", "labels", SUPPORT_LABEL) == SUPPORT_DEPRECATED:
        after = text(runtime, "metadata", "annotations", "trainyard.dev/remove-after")
        yield DEPRECATED.found(kind=kind, name=name, removal=f" and is removed after {after}" if after else "")


def _names(job_state: JobState) -> list[str]:
    own = [name_of(body) for body in job_state.index.of(Kind.CLUSTER_RUNTIME)]
    return sorted(own)[:10] or ["the installed runtimes"]


FAMILY: Final = Family("Runtimes", 11, (MISSING, DEPRECATED), _find)
