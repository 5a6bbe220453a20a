"""Objects that keep something from being deleted: their finalizers, the owners of these, and the command that helps.

An object with a finalizer is deleted only when its controller has removed it. A namespace is deleted only when
everything inside it is; its conditions name the kinds of what is left. Who set a finalizer is in ``managedFields``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from trainyard.kube import Client, Object, Resource
from trainyard.kube.served_resources import preferred_version, served_resources

__all__ = ["Blocker", "read_blockers"]

_REMAINING = re.compile(r"([a-z0-9.-]+) has (\d+) resource instances?")
_SHOWN = 3
"""Number of objects of each kind that are read; one is enough to act."""


@dataclass(frozen=True)
class Blocker:
    """An object that is being deleted and has finalizers.

    Parameters
    ----------
    resource
        Its resource.
    namespace, name
        Its name; the namespace is empty for cluster-scoped objects.
    finalizers
        Its finalizers.
    managers
        Field managers that set them.
    """

    resource: Resource
    namespace: str
    name: str
    finalizers: tuple[str, ...]
    managers: tuple[str, ...]

    @property
    def command(self) -> str:
        """The command that removes the finalizers, for controllers that are gone."""
        where = f" -n {self.namespace}" if self.namespace else ""
        patch = """-p '{"metadata":{"finalizers":null}}'"""
        return f"kubectl patch {self.resource} {self.name}{where} --type=merge {patch}"

    def __str__(self) -> str:
        address = f"{self.namespace}/{self.name}" if self.namespace else self.name
        owner = f" of {', '.join(self.managers)}" if self.managers else ""
        plural = "finalizers" if len(self.finalizers) > 1 else "finalizer"
        return (
            f"{self.resource.kind} {address} has {plural} {', '.join(self.finalizers)}{owner}, whose controller must "
            f"remove it; if the controller is gone: {self.command}"
        )


async def read_blockers(client: Client, api_version: str, kind: str, name: str, namespace: str = "") -> list[Blocker]:
    """Return what keeps an object from being deleted, the object itself or contents of a namespace.

    Returns
    -------
    list of Blocker
        Up to three objects of each kind; empty if the object is gone, or is not being deleted.

    Raises
    ------
    ApiError
        The API server rejects a request, such as one without permission.
    """
    resource = await _resource(client, api_version, kind=kind)
    body = await client.find(resource, name, namespace=namespace or None) if resource is not None else None
    if resource is None or body is None or not body["metadata"].get("deletionTimestamp"):
        return []
    found = [*_of(resource, body)]
    if (api_version, kind) == ("v1", "Namespace"):
        for left in _left(body):
            plural, _, group = left.partition(".")
            inside = await _resource(client, await preferred_version(client, group), plural=plural)
            if inside is not None:
                items = await client.request("GET", inside.path(namespace=name), query={"limit": "500"})
                held = [blocker for item in items["items"] for blocker in _of(inside, item)]
                found += held[:_SHOWN]
    return found


def _left(namespace: Object) -> list[str]:
    """Return the resources that a namespace still contains, such as ``workloads.kueue.x-k8s.io``."""
    conditions = namespace.get("status", {}).get("conditions") or ()
    texts = [each.get("message", "") for each in conditions if each.get("type") == "NamespaceContentRemaining"]
    return list(dict.fromkeys(match[1].rstrip(".") for text in texts for match in _REMAINING.finditer(text)))


async def _resource(client: Client, api_version: str, *, kind: str = "", plural: str = "") -> Resource | None:
    served = await served_resources(client, [api_version])
    return next((each for each in served if each.kind == kind or each.plural == plural), None)


def _of(resource: Resource, body: Object) -> list[Blocker]:
    metadata = body["metadata"]
    finalizers = tuple(metadata.get("finalizers") or ())
    if not finalizers or not metadata.get("deletionTimestamp"):
        return []
    managers = tuple(
        dict.fromkeys(
            entry["manager"]
            for entry in metadata.get("managedFields") or ()
            if entry.get("manager") and _sets(entry.get("fieldsV1") or {}, finalizers)
        )
    )
    return [Blocker(resource, metadata.get("namespace", ""), metadata["name"], finalizers, managers)]


def _sets(fields: Mapping[str, Any], finalizers: tuple[str, ...]) -> bool:
    owned = (fields.get("f:metadata") or {}).get("f:finalizers") or {}
    return any(f'v:"{finalizer}"' in owned for finalizer in finalizers)
