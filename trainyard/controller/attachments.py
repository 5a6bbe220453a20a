"""ConfigMaps and Secrets that the pods of a job mount: host files, scripts, keys.

They are made before the JobSet and looked at again whenever the job is built: when it starts, when it is suspended and
when it resumes. One that was deleted meanwhile is made again then. They are read by name only, neither listed nor
watched, and of Secrets nothing but the metadata is read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from trainyard.controller.ownership import OccupiedError, require_owner
from trainyard.controller.permissions import keys_fix
from trainyard.controller.resources import CONFIG_MAPS, FIELD_MANAGER, SECRETS
from trainyard.kube import ApiError, Client, Object, Resource, uid_of
from trainyard.problem import TrainyardError
from trainyard.render.trainer_status import AUTHORITY_PLACEHOLDER

__all__ = ["ATTACHED", "Attachments"]

ATTACHED: Final[Mapping[str, Resource]] = {resource.kind: resource for resource in (CONFIG_MAPS, SECRETS)}
"""Resources by kind."""


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
        """Create an object, or bring its data up to date; return whether anything was written.

        Parameters
        ----------
        train_job
            The owner.
        body
            The object as it is rendered; a Secret's values are placeholders.
        first
            Whether it most likely does not exist yet.
        complete
            Returns the object with its values, called only to create a Secret. One that exists is never rewritten: its
            keys are in use.

        Raises
        ------
        OccupiedError
            If an object of that name has another owner.
        TrainyardError
            If the controller may not create keys in the namespace, or does not know the status server's authority yet.
        """
        resource = ATTACHED[body["kind"]]
        if resource is CONFIG_MAPS and AUTHORITY_PLACEHOLDER in body["data"].values():
            raise TrainyardError("the authority of the status server is not known yet", fix="Wait: the leader makes it")
        try:
            held = None if first else await self._find(resource, body)
            if held is None:
                if await self._create(resource, complete() if resource is SECRETS else body):
                    return True
                held = await self._find(resource, body)
        except ApiError as error:
            fix = keys_fix(body["metadata"]["namespace"], error.message) if error.status == 403 else None
            if fix is None:
                raise
            raise TrainyardError(error.message, fix=fix) from error
        if held is None or held["metadata"].get("deletionTimestamp"):
            name = body["metadata"]["name"]
            raise OccupiedError(
                f"{resource.kind} {name} is being deleted", fix="Wait: it is created again", leaving=True
            )
        require_owner(resource, held, train_job)
        return resource is CONFIG_MAPS and await self._update(body, held)

    async def _find(self, resource: Resource, body: Object) -> Object | None:
        name, namespace = body["metadata"]["name"], body["metadata"]["namespace"]
        if resource is SECRETS:
            return await self._client.find_metadata(resource, name, namespace=namespace)
        return await self._client.find(resource, name, namespace=namespace)

    async def _create(self, resource: Resource, body: Object) -> bool:
        try:
            await self._client.create(resource, body, field_manager=FIELD_MANAGER)
        except ApiError as error:
            if error.status == 409 and error.reason == "AlreadyExists":
                return False
            raise
        return True

    async def _update(self, body: Object, held: Object) -> bool:
        old, new = held.get("data") or {}, body["data"]
        if old == new:
            return False
        metadata = {"uid": uid_of(held), "resourceVersion": held["metadata"]["resourceVersion"]}
        patch = {"metadata": metadata, "data": {**dict.fromkeys(old), **new}}
        name, namespace = body["metadata"]["name"], body["metadata"]["namespace"]
        await self._client.merge_patch(CONFIG_MAPS, name, patch, namespace=namespace, field_manager=FIELD_MANAGER)
        return True
