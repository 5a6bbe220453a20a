"""Replacement of existing objects: each is deleted directly before its successor is created.

Pulumi replaces only objects of its state. Those of another owner are deleted by a hook before the creation, with their
uid as precondition. Workloads are deleted in the foreground: two schedulers at once would place the same pods.
"""

from __future__ import annotations

import asyncio
import time

import pulumi

from trainyard.errors import TrainyardError
from trainyard.kube.api_errors import ApiError
from trainyard.kube.client import Client
from trainyard.kube.resource import Resource
from trainyard.local.cluster.provider import ClusterAccess
from trainyard.platform.takeover.takeover import Takeover

PATIENCE = 180.0
"""Seconds for the pods of a workload to end."""
_PAUSE = 0.2
_GROUPS = ("apps", "batch")
"""API groups of workloads."""


class Replacements:
    """The objects of one run that are replaced.

    Parameters
    ----------
    access
        The cluster.
    """

    def __init__(self, access: ClusterAccess) -> None:
        self._access = access
        self._planned: dict[str, tuple[Resource, Takeover]] = {}
        self._binding: pulumi.ResourceHookBinding | None = None

    def binding(self, name: str, resource: Resource, takeover: Takeover) -> pulumi.ResourceHookBinding:
        """Return the hook binding of a resource whose object is replaced.

        Parameters
        ----------
        name
            Name of the Pulumi resource.
        resource
            Resource of the object.
        takeover
            The decision, with the uid of the object.
        """
        self._planned[name] = (resource, takeover)
        if self._binding is None:
            self._binding = pulumi.ResourceHookBinding(
                before_create=[pulumi.ResourceHook("replace-existing", self._before)]
            )
        return self._binding

    async def _before(self, args: pulumi.ResourceHookArgs) -> None:
        if planned := self._planned.get(args.name):
            async with Client.from_kubeconfig(self._access.kubeconfig, self._access.context) as client:
                await delete_replaced(client, *planned)


async def delete_replaced(
    client: Client, resource: Resource, takeover: Takeover, *, patience: float = PATIENCE
) -> None:
    """Delete an object that is replaced, and wait until it is gone.

    Raises
    ------
    TrainyardError
        Another object has its name since the plan, or it is not gone in time.
    """
    name, namespace = takeover.name, takeover.namespace or None
    foreground = resource.group in _GROUPS
    try:
        await client.delete(
            resource,
            name,
            namespace=namespace,
            uid=takeover.uid,
            propagation="Foreground" if foreground else "Background",
        )
    except ApiError as error:
        if not error.conflict:
            raise
        raise TrainyardError(
            f"{takeover.object} has been created again since the takeover was planned", fix="run the command again"
        ) from error
    deadline = time.monotonic() + patience
    while (found := await client.find_confirmed(resource, name, namespace=namespace, metadata_only=True)) is not None:
        if found["metadata"].get("uid") != takeover.uid:
            raise TrainyardError(
                f"{takeover.object} was created again by another owner when it was deleted",
                fix="stop what creates it, then run the command again",
            )
        if time.monotonic() > deadline:
            held = ", ".join(found["metadata"].get("finalizers") or ()) or "none"
            raise TrainyardError(
                f"{takeover.object} is not gone {patience:.0f} s after its deletion (finalizers: {held})",
                fix="see its pods and finalizers, then run the command again",
            )
        await asyncio.sleep(_PAUSE)
