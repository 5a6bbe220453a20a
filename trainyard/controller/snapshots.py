"""Runtime snapshots in ConfigMaps: later edits of a runtime do not affect the jobs that use it.

Snapshots are read only when a job is rendered, so they are neither watched nor cached. They are created by POST, so
that the ConfigMap of another owner is never overwritten.
"""

from __future__ import annotations

from trainyard.api import Runtime, TrainJob
from trainyard.controller.job_ownership import OwnershipConflictError, owner_train_job
from trainyard.controller.resources import FIELD_MANAGER
from trainyard.errors import TrainyardError
from trainyard.jobs.render.runtime_snapshot import read_snapshot, snapshot_name
from trainyard.kube.api_errors import ApiError
from trainyard.kube.client import Client
from trainyard.kube.kinds import CONFIG_MAPS
from trainyard.kube.resource import Object, controller_of


async def stored_runtime(client: Client, train_job: TrainJob) -> Runtime | None:
    """Return the runtime from a TrainJob's snapshot, or None without a snapshot.

    Raises
    ------
    OwnershipConflictError
        If the ConfigMap has another owner.
    TrainyardError
        If it does not contain a valid runtime that the TrainJob references.
    """
    metadata = train_job.metadata
    body = await client.find_confirmed(CONFIG_MAPS, snapshot_name(metadata.name), namespace=metadata.namespace)
    if body is None:
        return None
    try:
        return read_snapshot(body, train_job)
    except TrainyardError as error:
        message = f"ConfigMap {body['metadata']['name']}: {error.message}"
        if _is_controlled_by(body, metadata.uid):
            raise TrainyardError(message, fix=error.fix) from error
        former = owner_train_job(body)
        transient = (former is not None and former.get("name") == metadata.name) or bool(
            body["metadata"].get("deletionTimestamp")
        )
        raise OwnershipConflictError(message, fix=error.fix, transient=transient) from error


async def create_snapshot(client: Client, body: Object) -> bool:
    """Create a snapshot; return False if the ConfigMap already exists."""
    try:
        await client.create(CONFIG_MAPS, body, field_manager=FIELD_MANAGER)
    except ApiError as error:
        if error.status == 409 and error.reason == "AlreadyExists":
            return False
        raise
    return True


def _is_controlled_by(body: Object, uid: str | None) -> bool:
    """Return whether the controller owner reference of an object has a uid."""
    owner = controller_of(body)
    return owner is not None and owner.get("uid") == uid
