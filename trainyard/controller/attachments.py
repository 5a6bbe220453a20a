"""ConfigMaps and Secrets that the pods of a job mount: host files, scripts, keys.

They are created before the JobSet and checked whenever the job is rendered: when it starts, is suspended and resumes.
Deleted ones are then created again. They are read by name only, neither listed nor watched; of Secrets, only the
metadata is read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from trainyard.controller.job_ownership import OwnershipConflictError, require_owner
from trainyard.controller.permissions import keys_fix
from trainyard.controller.resources import FIELD_MANAGER
from trainyard.errors import TrainyardError
from trainyard.jobs.render.trainer_status import AUTHORITY_PLACEHOLDER
from trainyard.kube.api_errors import ApiError
from trainyard.kube.client import Client
from trainyard.kube.kinds import CONFIG_MAPS, SECRETS
from trainyard.kube.resource import Object, Resource, uid_of

ATTACHED: Final[Mapping[str, Resource]] = {resource.kind: resource for resource in (CONFIG_MAPS, SECRETS)}
"""Resources of mounted objects by kind."""


class Attachments:
    """ConfigMaps and Secrets of TrainJobs.

    Parameters
    ----------
    client
        Fenced API client.
    """

    def __init__(self, client: Client) -> None:
        self._client = client

    async def put(self, train_job: Object, body: Object, *, first: bool, complete: Callable[[], Object]) -> bool:
        """Create an object or update its data; return whether anything was written.

        Parameters
        ----------
        train_job
            The owner.
        body
            The rendered object; the values of a Secret are placeholders.
        first
            Whether the object probably does not exist yet.
        complete
            Returns the Secret with its values; called only to create it. An existing Secret is never updated because
            its keys are in use.

        Raises
        ------
        OwnershipConflictError
            If the object exists and has another owner.
        TrainyardError
            If the controller may not create Secrets in the namespace, or the status server's authority is not known.
        """
        resource = ATTACHED[body["kind"]]
        if resource is CONFIG_MAPS and AUTHORITY_PLACEHOLDER in body["data"].values():
            raise TrainyardError(
                "the authority of the status server is not known yet", fix="Wait: the leader creates it"
            )
        try:
            stored = None if first else await self._find(resource, body)
            if stored is None:
                if await self._create(resource, complete() if resource is SECRETS else body):
                    return True
                stored = await self._find(resource, body)
        except ApiError as error:
            fix = keys_fix(body["metadata"]["namespace"], error.message) if error.status == 403 else None
            if fix is None:
                raise
            raise TrainyardError(error.message, fix=fix) from error
        if stored is None or stored["metadata"].get("deletionTimestamp"):
            name = body["metadata"]["name"]
            raise OwnershipConflictError(
                f"{resource.kind} {name} is being deleted", fix="Wait: it is created again", transient=True
            )
        require_owner(resource, stored, train_job)
        return resource is CONFIG_MAPS and await self._update(body, stored)

    async def _find(self, resource: Resource, body: Object) -> Object | None:
        name, namespace = body["metadata"]["name"], body["metadata"]["namespace"]
        if resource is SECRETS:
            return await self._client.find_confirmed(resource, name, namespace=namespace, metadata_only=True)
        return await self._client.find(resource, name, namespace=namespace)

    async def _create(self, resource: Resource, body: Object) -> bool:
        try:
            await self._client.create(resource, body, field_manager=FIELD_MANAGER)
        except ApiError as error:
            if error.status == 409 and error.reason == "AlreadyExists":
                return False
            raise
        return True

    async def _update(self, body: Object, stored: Object) -> bool:
        old, new = stored.get("data") or {}, body["data"]
        if old == new:
            return False
        metadata = {"uid": uid_of(stored), "resourceVersion": stored["metadata"]["resourceVersion"]}
        patch = {"metadata": metadata, "data": {**dict.fromkeys(old), **new}}
        name, namespace = body["metadata"]["name"], body["metadata"]["namespace"]
        await self._client.merge_patch(CONFIG_MAPS, name, patch, namespace=namespace, field_manager=FIELD_MANAGER)
        return True
