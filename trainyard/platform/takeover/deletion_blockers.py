"""Objects that keep something from being deleted: their finalizers, the owners of these, and the command that helps.

An object with a finalizer is deleted only when its controller has removed it. Who set a finalizer is in
``managedFields``. A namespace is deleted only when everything inside it is; its conditions name the kinds of what is
left, and what the API server failed to find or delete. A CustomResourceDefinition is deleted only when its objects are.
Finalizers of Kubernetes itself are never removed by a command: the objects of a definition would stay in etcd.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trainyard.kube.api_errors import ApiError
from trainyard.kube.client import Client
from trainyard.kube.resource import Object, Resource
from trainyard.kube.served_resources import preferred_version, served_resources

_REMAINING = re.compile(r"(?<![a-z0-9.-])([a-z0-9.-]+) has (\d+) resource instances?")
_SHOWN = 3
"""Number of objects of each kind that are read; one is enough to act."""


_CLEANUP = "customresourcecleanup.apiextensions.k8s.io"
_FOREGROUND = "foregroundDeletion"
_KUBERNETES = re.compile(rf"{re.escape(_CLEANUP)}|{_FOREGROUND}|kubernetes\.io/[a-z-]+-protection")
"""Finalizers that Kubernetes removes itself."""
_GROUP_VERSION = re.compile(r"(?<![\w.-])([a-z0-9.-]+)/(v\d\w*): ")
_DISCOVERY = "NamespaceDeletionDiscoveryFailure"
_FAILURES = (_DISCOVERY, "NamespaceDeletionGroupVersionParsingFailure", "NamespaceDeletionContentFailure")
"""Conditions of a namespace that name what failed."""


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
        Field managers that set those that are not of Kubernetes.
    """

    resource: Resource
    namespace: str
    name: str
    finalizers: tuple[str, ...]
    managers: tuple[str, ...]

    @property
    def command(self) -> str:
        """The command that removes the finalizers, for controllers that are gone; empty for those of Kubernetes."""
        kept = [each for each in self.finalizers if _KUBERNETES.fullmatch(each)]
        if len(kept) == len(self.finalizers):
            return ""
        where = f" -n {self.namespace}" if self.namespace else ""
        patch = json.dumps({"metadata": {"finalizers": kept or None}}, separators=(",", ":"))
        return f"kubectl patch {self.resource} {self.name}{where} --type=merge -p '{patch}'"

    def __str__(self) -> str:
        address = f"{self.namespace}/{self.name}" if self.namespace else self.name
        command = self.command
        named = _foreign(self.finalizers) if command else self.finalizers
        plural = "finalizers" if len(named) > 1 else "finalizer"
        text = f"{self.resource.kind} {address} has {plural} {', '.join(named)}"
        if not command:
            return f"{text}, which Kubernetes removes {_end_of(named[0])}"
        owner = f" of {', '.join(self.managers)}" if self.managers else ""
        return f"{text}{owner}, whose controller must remove it; if the controller is gone: {command}"


@dataclass(frozen=True)
class Failure:
    """What Kubernetes, or this reader, failed to find or delete.

    Parameters
    ----------
    object
        The object that is being deleted, as ``Kind name``.
    message
        The error.
    hint
        What to do, with a command.
    """

    object: str
    message: str
    hint: str

    def __str__(self) -> str:
        return f"{self.object}: {self.message}; {self.hint}"


async def read_blockers(
    client: Client, api_version: str, kind: str, name: str, namespace: str = ""
) -> list[Blocker | Failure]:
    """Return what keeps an object from being deleted: itself, contents of a namespace or objects of a definition.

    Returns
    -------
    list of Blocker or Failure
        Up to three objects of each kind; empty if the object is gone, or is not being deleted.

    Raises
    ------
    ApiError
        The API server rejects the request for the object, such as one without permission.
    """
    resource = await _resource(client, api_version, kind=kind)
    body = await client.find(resource, name, namespace=namespace or None) if resource is not None else None
    if resource is None or body is None or not body["metadata"].get("deletionTimestamp"):
        return []
    found: list[Blocker | Failure] = [*_of(resource, body)]
    if (api_version, kind) == ("v1", "Namespace"):
        for left in _left(body):
            found += await _held_inside(client, body, left)
        return [*found, *_failures(body)]
    if kind == "CustomResourceDefinition":
        inside = await _instances(client, _instance_resource(body), f"{kind} {name}")
        return inside if inside and not any(isinstance(each, Failure) for each in inside) else [*inside, *found]
    return found


async def _held_inside(client: Client, namespace: Object, left: str) -> Sequence[Blocker | Failure]:
    """Return the held objects of one resource in a namespace, or why they cannot be listed."""
    name = namespace["metadata"]["name"]
    plural, _, group = left.partition(".")
    try:
        inside = await _resource(client, await preferred_version(client, group), plural=plural)
    except ApiError as error:
        return [_unlisted(left, error, f"Namespace {name}", name)]
    return await _instances(client, inside, f"Namespace {name}", name) if inside is not None else ()


async def _instances(client: Client, resource: Resource, owner: str, namespace: str = "") -> list[Blocker | Failure]:
    try:
        items = await client.request("GET", resource.path(namespace=namespace or None), query={"limit": "500"})
    except ApiError as error:
        return [_unlisted(str(resource), error, owner, namespace)]
    held = [blocker for item in items["items"] for blocker in _of(resource, item)]
    return [*held[:_SHOWN]]


def _unlisted(resource: str, error: ApiError, owner: str, namespace: str = "") -> Failure:
    where = f"-n {namespace}" if namespace else "-A"
    return Failure(owner, f"{resource} cannot be listed: {error.message}", f"see kubectl get {resource} {where}")


def _instance_resource(definition: Object) -> Resource:
    """Return the resource that a definition defines, in a version that is served, if possible the stored one."""
    spec = definition["spec"]
    versions = sorted(spec["versions"], key=lambda each: (not each.get("served"), not each.get("storage")))
    names = spec["names"]
    return Resource(spec["group"], versions[0]["name"], names["plural"], names["kind"], spec["scope"] == "Namespaced")


def _failures(namespace: Object) -> list[Failure]:
    """Return what the namespace controller failed to do, such as the discovery of an API whose server is down."""
    name = namespace["metadata"]["name"]
    found = []
    for condition in (namespace.get("status") or {}).get("conditions") or ():
        message = condition.get("message", "")
        if condition.get("type") not in _FAILURES or condition.get("status") != "True":
            continue
        services = [f"{version}.{group}" for group, version in _GROUP_VERSION.findall(message)]
        if condition["type"] == _DISCOVERY and services:
            hint = (
                "start the server of the API, or delete its APIService if it is gone: see kubectl get apiservices "
                f"{' '.join(dict.fromkeys(services))}"
            )
        else:
            hint = f"see kubectl get namespace {name} -o yaml"
        found.append(Failure(f"Namespace {name}", message, hint))
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
            if entry.get("manager") and _sets(entry.get("fieldsV1") or {}, _foreign(finalizers))
        )
    )
    return [Blocker(resource, metadata.get("namespace", ""), metadata["name"], finalizers, managers)]


def _sets(fields: Mapping[str, Any], finalizers: tuple[str, ...]) -> bool:
    owned = (fields.get("f:metadata") or {}).get("f:finalizers") or {}
    return any(f'v:"{finalizer}"' in owned for finalizer in finalizers)


def _foreign(finalizers: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(each for each in finalizers if not _KUBERNETES.fullmatch(each))


def _end_of(finalizer: str) -> str:
    """Return when Kubernetes removes one of its finalizers."""
    if finalizer == _CLEANUP:
        return "when all objects of the kind are deleted"
    return "when its dependents are deleted" if finalizer == _FOREGROUND else "when no object uses it"
