"""Objects that a person names: a reference, the kinds among which it is looked up, and their short names."""

from __future__ import annotations

from typing import Final

from trainyard.cluster_state.body_fields import Body
from trainyard.cluster_state.cluster_index import ClusterIndex
from trainyard.cluster_state.observed import Kind

NAMED_KINDS: Final = {
    "trainjob": Kind.TRAIN_JOB,
    "jobset": Kind.JOB_SET,
    "vcjob": Kind.VOLCANO_JOB,
    "job": Kind.JOB,
    "pod": Kind.POD,
}
"""Kinds that a person can name, in the order in which a name without kind is looked up."""

_ALIASES: Final = {
    **{f"{name}s": kind for name, kind in NAMED_KINDS.items()},
    **{"tj": Kind.TRAIN_JOB, "js": Kind.JOB_SET, "po": Kind.POD, "vj": Kind.VOLCANO_JOB},
    "trainjobs.trainer.kubeflow.org": Kind.TRAIN_JOB,
    "trainjob.trainer.kubeflow.org": Kind.TRAIN_JOB,
    "jobsets.jobset.x-k8s.io": Kind.JOB_SET,
    "jobset.jobset.x-k8s.io": Kind.JOB_SET,
    "jobs.batch": Kind.JOB,
    "job.batch": Kind.JOB,
    "jobs.batch.volcano.sh": Kind.VOLCANO_JOB,
    "job.batch.volcano.sh": Kind.VOLCANO_JOB,
}


def short_kind(kind: str) -> str:
    """Return the kind as a person writes it."""
    return "Volcano Job" if kind == Kind.VOLCANO_JOB else kind.partition(".")[0]


def find_named(index: ClusterIndex, reference: str, namespace: str) -> Body | None:
    """Return the object of a reference, ``NAME`` or ``KIND/NAME``, or None if it does not exist."""
    name = reference.rpartition("/")[2]
    found = (index.find(kind, name, namespace) for kind in named_kinds(reference))
    return next((body for body in found if body is not None), None)


def named_kinds(reference: str) -> tuple[str, ...]:
    """Return the kinds among which a reference is looked up; none: its kind is unknown."""
    prefix, slash, _ = reference.rpartition("/")
    if not slash:
        return tuple(NAMED_KINDS.values())
    kind = NAMED_KINDS.get(prefix.lower()) or _ALIASES.get(prefix.lower())
    return () if kind is None else (kind,)
