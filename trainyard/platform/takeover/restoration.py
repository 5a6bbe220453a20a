"""Restoration of what a takeover has changed: former programs are created again, the other objects become as before.

It follows the deletion of the objects of the stack. Permissions and configuration precede the programs that need them;
webhook configurations come last. Of an object that is still there, the labels and annotations of the stack are removed
and its other fields become what they were. CustomResourceDefinitions and namespaces keep theirs: objects of users are
stored in them. A definition that was deleted since is not recorded as a whole and stays deleted, with its objects.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from trainyard.api.constants import STACK_LABEL
from trainyard.checks.finding import Finding
from trainyard.kube.api_errors import ApiError, TransportError
from trainyard.kube.client import Client
from trainyard.kube.resource import Object, Resource
from trainyard.platform.takeover.former_objects import STACK_MANAGERS, FormerObject, cleaned, is_managed

RESTORATION_MANAGER: Final = "trainyard-restoration"
"""Field manager of restored objects: that of the stack must own nothing afterwards."""

_DEFINITION = "CustomResourceDefinition"
_ORDER = (
    (_DEFINITION,),
    ("Namespace",),
    ("ServiceAccount",),
    ("ClusterRole", "Role", "ClusterRoleBinding", "RoleBinding"),
    ("ConfigMap",),
    ("Service",),
    (),
    ("Deployment", "DaemonSet", "ReplicaSet"),
    ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"),
    ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"),
)
"""Kinds in the order of their restoration; kinds that are not listed, such as Queue, precede the programs."""
_OTHERS = _ORDER.index(())
_ALLOCATED = ("clusterIP", "clusterIPs", "healthCheckNodePort")
"""Fields of a Service that the API server sets, and that may have been given to another one since."""
_ATTEMPTS = 3


@dataclass
class Restoration:
    """What was restored.

    Parameters
    ----------
    messages
        One line about each object that was changed, created, or left.
    failures
        The objects that could not be restored.
    """

    messages: list[str] = field(default_factory=list)
    failures: list[Finding] = field(default_factory=list)


async def restore(client: Client, stack: str, objects: Iterable[FormerObject]) -> Restoration:
    """Restore objects; those that fail are tried again as long as others succeed.

    A webhook of another owner may compare them with each other, for instance a queue with its parent.

    Parameters
    ----------
    client
        Administrator's client.
    stack
        The stack that has taken them over, and whose own objects are deleted.
    objects
        The objects as they were.
    """
    result, pending = Restoration(), in_order(objects)
    while pending:
        failed: list[tuple[FormerObject, Finding]] = []
        for each in pending:
            try:
                if message := await _restore(client, stack, each):
                    result.messages.append(message)
            except (ApiError, TransportError) as error:
                failed.append((each, Finding(each.object, f"it cannot be restored: {error}")))
        if len(failed) == len(pending):
            result.failures = [finding for _, finding in failed]
            return result
        pending = [each for each, _ in failed]
    return result


def in_order(objects: Iterable[FormerObject]) -> list[FormerObject]:
    """Return objects in the order of their restoration."""
    ranks = {kind: rank for rank, kinds in enumerate(_ORDER) for kind in kinds}
    return sorted(objects, key=lambda each: ranks.get(each.resource.kind, _OTHERS))


def restored(live: Object, former: FormerObject) -> Object:
    """Return a live object as it was before its takeover.

    Labels and annotations that others have set since stay.
    """
    metadata = dict(live["metadata"])
    managed = metadata.get("managedFields") or ()
    ours = [each for each in managed if each.get("manager") in STACK_MANAGERS]
    for section in ("labels", "annotations"):
        if values := _values(section, metadata, former.manifest["metadata"], ours):
            metadata[section] = values
        else:
            metadata.pop(section, None)
    if ours:
        # The API server reads an empty list as unchanged, and one empty entry as no managers.
        metadata["managedFields"] = [each for each in managed if each not in ours] or [{}]
    if former.metadata_only:
        return {**live, "metadata": metadata}
    status = {"status": live["status"]} if "status" in live else {}
    return {**former.manifest, "metadata": metadata, **status}


async def _restore(client: Client, stack: str, former: FormerObject) -> str:
    """Restore one object, and return what was done; empty: it is as it was."""
    for attempt in range(1, _ATTEMPTS + 1):
        live = await client.find(former.resource, former.name, namespace=former.namespace)
        try:
            if live is None:
                return await _create(client, former)
            if not _is_taken(live, former, stack):
                if is_managed(live, {RESTORATION_MANAGER}) or cleaned(former.resource, live) == former.manifest:
                    return ""
                return f"{former.object} was left as it is: another owner has created or changed it since"
            body = restored(live, former)
            if body == live:
                return ""
            await client.replace(former.resource, body)
        except ApiError as error:
            if not error.conflict or attempt == _ATTEMPTS:
                raise
        else:
            return f"{former.object} was restored"
    return ""


async def _create(client: Client, former: FormerObject) -> str:
    """Create an object that is missing, and return what was done."""
    resource = former.resource
    if resource.kind == _DEFINITION:
        return f"{former.object} was deleted since and stays so"
    spec = former.manifest.get("spec") or {}
    try:
        await client.create(resource, former.manifest)
    except ApiError as error:
        if error.not_found and not await _is_served(client, resource):
            kind = f"{resource.api_version} {resource.kind}"
            return f"{former.object} was not created again: {kind} does not exist any more"
        if resource.kind != "Service" or "already allocated" not in error.message:
            raise
        kept = {key: value for key, value in spec.items() if key not in _ALLOCATED}
        ports = [{k: v for k, v in port.items() if k != "nodePort"} for port in spec.get("ports") or ()]
        await client.create(resource, {**former.manifest, "spec": {**kept, "ports": ports}})
    return f"{former.object} was created again"


async def _is_served(client: Client, resource: Resource) -> bool:
    """Return whether a kind exists; a creation is answered with 404 also where its namespace does not exist."""
    try:
        await client.page(resource, limit=1, metadata_only=True)
    except ApiError as error:
        if error.not_found:
            return False
        raise
    return True


def _is_taken(live: Object, former: FormerObject, stack: str) -> bool:
    """Return whether a stack has changed an object: its label, or that of a later stack, decides."""
    owner = (live["metadata"].get("labels") or {}).get(STACK_LABEL)
    if owner is not None:
        return bool(owner == stack)
    return live["metadata"].get("uid") == former.uid and (former.patched or is_managed(live))


def _values(
    section: str, live: Mapping[str, Any], former: Mapping[str, Any], managed: Sequence[Mapping[str, Any]]
) -> dict[str, str]:
    """Return labels or annotations: those that the stack manages as they were, the others as they are."""
    fields = [((each.get("fieldsV1") or {}).get("f:metadata") or {}).get(f"f:{section}") or {} for each in managed]
    mine = {key.removeprefix("f:") for each in fields for key in each}
    before, now = former.get(section) or {}, live.get(section) or {}
    others = {key: value for key, value in now.items() if key not in mine}
    return {**others, **{key: value for key, value in before.items() if key in mine}}
