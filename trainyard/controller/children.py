"""The objects made for a TrainJob: applied in order, never taken from somebody else, never written twice the same."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from trainyard.api.constants import GROUP, TRAIN_JOB
from trainyard.controller.resources import FIELD_MANAGER
from trainyard.controller.view import ClusterView
from trainyard.kube import Client, Informer, Key, Object, Resource, controller_of, uid_of
from trainyard.problem import TrainyardError

__all__ = ["Children", "Memory", "OccupiedError", "require_owner"]

_REMEMBERED = 100_000


class OccupiedError(TrainyardError):
    """An object that a TrainJob needs exists and belongs to somebody else, for instance to a job that is going away."""


@dataclass
class Memory:
    """What this process knows of one TrainJob beyond what is stored; losing it costs requests, never correctness."""

    applied: dict[str, tuple[bytes, int]] = field(default_factory=dict)
    built: tuple[object, ...] | None = None


class Children:
    """JobSets and PodGroups of TrainJobs.

    Parameters
    ----------
    client
        Fenced API client.
    view
        The informers.
    """

    def __init__(self, client: Client, view: ClusterView) -> None:
        self._client = client
        self._informers: dict[str, Informer] = {
            _type_of(informer.resource): informer
            for informer in (view.job_sets, view.pod_groups, view.coscheduling_pod_groups)
        }
        self._memories: OrderedDict[str, Memory] = OrderedDict()

    def memory(self, train_job: Object) -> Memory:
        """Return what is remembered of a TrainJob."""
        uid = uid_of(train_job)
        found = self._memories.setdefault(uid, Memory())
        self._memories.move_to_end(uid)
        while len(self._memories) > _REMEMBERED:
            self._memories.popitem(last=False)
        return found

    def forget(self, train_job: Object) -> None:
        """Drop what is remembered of a TrainJob."""
        self._memories.pop(uid_of(train_job), None)

    def owned(self, resource: Resource, train_job: Object) -> Object | None:
        """Return the child of a kind, None where there is none.

        Raises
        ------
        OccupiedError
            If an object of that name exists that does not belong to the TrainJob.
        """
        namespace, name = _key(train_job)
        body = self._informers[_type_of(resource)].store.get(namespace, name)
        if body is None:
            return None
        require_owner(resource, body, train_job)
        return body

    async def apply(self, train_job: Object, desired: Object) -> Object:
        """Apply one child unless this process did just that before, and return it as stored."""
        kind = f"{desired['apiVersion']}/{desired['kind']}"
        informer = self._informers[kind]
        remembered = self.memory(train_job).applied
        digest = hashlib.blake2b(orjson.dumps(desired, option=orjson.OPT_SORT_KEYS), digest_size=16).digest()
        held = informer.store.get(*_key(train_job))
        if held is not None and remembered.get(kind) == (digest, held["metadata"].get("generation", 0)):
            return held
        stored = await self._client.apply(informer.resource, desired, field_manager=FIELD_MANAGER)
        remembered[kind] = (digest, stored["metadata"].get("generation", 0))
        informer.fold(stored)
        return stored

    async def delete(self, resource: Resource, body: Object) -> None:
        """Delete a child, this incarnation only."""
        metadata = body["metadata"]
        await self._client.delete(resource, metadata["name"], namespace=metadata["namespace"], uid=uid_of(body))


def require_owner(resource: Resource, body: Object, train_job: Object) -> None:
    """Check that an object belongs to a TrainJob.

    Raises
    ------
    OccupiedError
        If it does not.
    """
    owner = controller_of(body)
    if owner is not None and _means(owner, train_job):
        return
    name = body["metadata"]["name"]
    whose = f"belongs to {owner['kind']} {owner['name']}" if owner else "belongs to nobody"
    raise OccupiedError(
        f"{resource.kind} {name} exists and {whose}, not to this TrainJob",
        fix=f"Delete the {resource.kind} or rename the TrainJob",
    )


def _means(owner: Mapping[str, Any], train_job: Object) -> bool:
    """Whether a reference is to a TrainJob; by its kind too, because that is what rule OBJ-001 goes by."""
    group, kind = str(owner.get("apiVersion")).rpartition("/")[0], owner.get("kind")
    return (owner.get("uid"), group, kind) == (uid_of(train_job), GROUP, TRAIN_JOB)


def _type_of(resource: Resource) -> str:
    return f"{resource.api_version}/{resource.kind}"


def _key(train_job: Object) -> Key:
    return train_job["metadata"]["namespace"], train_job["metadata"]["name"]
