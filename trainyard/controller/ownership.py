"""Ownership of objects by a TrainJob: the owner reference decides, the label only narrows the watch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from trainyard.api.constants import GROUP, TRAIN_JOB
from trainyard.kube import Object, Resource, controller_of, uid_of
from trainyard.problem import TrainyardError

__all__ = ["TRAIN_JOB_LABEL", "OccupiedError", "kept_metadata", "labeled", "owner_train_job", "owns", "require_owner"]

TRAIN_JOB_LABEL: Final = "trainyard.dev/train-job"
"""Label of JobSets and PodGroups of TrainJobs, with the TrainJob's name: the controller watches only these."""

_METADATA: Final = (
    "name",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "ownerReferences",
)


class OccupiedError(TrainyardError):
    """An object that a TrainJob needs exists and has another owner.

    Parameters
    ----------
    message, fix
        As for every error.
    leaving
        Whether the object goes by itself: it is being deleted, or belongs to an earlier TrainJob of the same name.
    """

    def __init__(self, message: str, *, fix: str, leaving: bool = False) -> None:
        super().__init__(message, fix=fix)
        self.leaving = leaving


def owner_train_job(body: Object) -> Mapping[str, Any] | None:
    """Return the controller reference of an object that a TrainJob controls, None for other objects."""
    owner = controller_of(body)
    if owner is None or (_group(owner), owner.get("kind")) != (GROUP, TRAIN_JOB):
        return None
    return owner


def owns(train_job: Object, body: Object) -> bool:
    """Return whether an object belongs to this incarnation of a TrainJob; rule OBJ-001 goes by the same fields."""
    owner = owner_train_job(body)
    return owner is not None and owner.get("uid") == uid_of(train_job)


def require_owner(resource: Resource, body: Object, train_job: Object) -> None:
    """Check that an object belongs to a TrainJob.

    Raises
    ------
    OccupiedError
        If it does not.
    """
    if owns(train_job, body):
        return
    owner = controller_of(body)
    name = body["metadata"]["name"]
    whose = f"belongs to {owner.get('kind')} {owner.get('name')}" if owner else "has no owner"
    former = owner_train_job(body)
    predecessor = former is not None and former.get("name") == train_job["metadata"]["name"]
    raise OccupiedError(
        f"{resource.kind} {name} exists and {whose}, not to this TrainJob",
        fix=f"Delete the {resource.kind} or rename the TrainJob",
        leaving=predecessor or bool(body["metadata"].get("deletionTimestamp")),
    )


def kept_metadata(body: Object) -> Object:
    """Return what the controller keeps in memory of an object's metadata: identity, versions, owners."""
    return {name: body["metadata"][name] for name in _METADATA if name in body["metadata"]}


def labeled(body: Object, train_job: Object) -> Object:
    """Return an object with the label of its TrainJob."""
    metadata = body["metadata"]
    labels = {**(metadata.get("labels") or {}), TRAIN_JOB_LABEL: train_job["metadata"]["name"]}
    return {**body, "metadata": {**metadata, "labels": labels}}


def _group(owner: Mapping[str, Any]) -> str:
    return str(owner.get("apiVersion")).rpartition("/")[0]
