"""Ownership of objects by a TrainJob: the owner reference decides, the label only narrows the watch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from trainyard.api.constants import GROUP, TRAIN_JOB
from trainyard.errors import TrainyardError
from trainyard.kube.resource import Object, Resource, controller_of, uid_of

TRAIN_JOB_LABEL: Final = "trainyard.dev/train-job"
"""Label of a TrainJob's JobSet and PodGroup with its name; the controller watches only labeled objects."""

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


class OwnershipConflictError(TrainyardError):
    """An object that a TrainJob needs exists and has another owner.

    Parameters
    ----------
    message, fix
        See `TrainyardError`.
    transient
        Whether the object is being deleted or belongs to an earlier TrainJob of the same name, so will disappear.
    """

    def __init__(self, message: str, *, fix: str, transient: bool = False) -> None:
        super().__init__(message, fix=fix)
        self.transient = transient


def owner_train_job(body: Object) -> Mapping[str, Any] | None:
    """Return the controller owner reference of an object if it is a TrainJob, or None."""
    owner = controller_of(body)
    if owner is None or (_group(owner), owner.get("kind")) != (GROUP, TRAIN_JOB):
        return None
    return owner


def owns(train_job: Object, body: Object) -> bool:
    """Return whether a TrainJob, by uid, controls an object; rule OBJ-001 checks the same fields."""
    owner = owner_train_job(body)
    return owner is not None and owner.get("uid") == uid_of(train_job)


def require_owner(resource: Resource, body: Object, train_job: Object) -> None:
    """Check that a TrainJob controls an object.

    Raises
    ------
    OwnershipConflictError
        If it has another owner or none.
    """
    if owns(train_job, body):
        return
    owner = controller_of(body)
    name = body["metadata"]["name"]
    whose = f"belongs to {owner.get('kind')} {owner.get('name')}" if owner else "has no owner"
    former = owner_train_job(body)
    predecessor = former is not None and former.get("name") == train_job["metadata"]["name"]
    raise OwnershipConflictError(
        f"{resource.kind} {name} exists and {whose}, so this TrainJob cannot use it",
        fix=f"Delete the {resource.kind} or rename the TrainJob",
        transient=predecessor or bool(body["metadata"].get("deletionTimestamp")),
    )


def kept_metadata(body: Object) -> Object:
    """Return the metadata that the controller caches: identity, versions, owners."""
    return {name: body["metadata"][name] for name in _METADATA if name in body["metadata"]}


def labeled(body: Object, train_job: Object) -> Object:
    """Return an object with the label of its TrainJob."""
    metadata = body["metadata"]
    labels = {**(metadata.get("labels") or {}), TRAIN_JOB_LABEL: train_job["metadata"]["name"]}
    return {**body, "metadata": {**metadata, "labels": labels}}


def _group(owner: Mapping[str, Any]) -> str:
    return str(owner.get("apiVersion")).rpartition("/")[0]
