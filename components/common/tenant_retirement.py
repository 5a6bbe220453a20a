"""Retired tenants: what goes with their namespaces; and tenants that are removed without being retired."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass

from trainyard.api.constants import ADOPTED_ANNOTATION
from trainyard.checks.finding import Finding
from trainyard.errors import TrainyardError
from trainyard.kube.api_errors import ApiError, TransportError
from trainyard.kube.client import Client
from trainyard.local.cluster.provider import ClusterAccess
from trainyard.platform.takeover.namespace_contents import NamespaceContents, read_contents
from trainyard.policy.engines.vap.validating_admission_policies import TENANT_LABEL
from trainyard.settings.stack import StackSettings

from .ownership import LiveObjects
from .threads import run_in_thread

_NAMESPACE = ("v1", "Namespace")


@dataclass(frozen=True)
class UnknownContents:
    """Why the contents of a namespace are unknown."""

    reason: str


def reject_removed_tenants(settings: StackSettings, stack: str, live: LiveObjects) -> None:
    """Reject the removal of a tenant that was not retired, if the stack is protected.

    Raises
    ------
    TrainyardError
        Names each tenant that has a namespace and is not in the settings.
    """
    if not settings.protect:
        return
    findings = [
        Finding(
            f"trainyard:tenants.{name}",
            f"tenant {name!r} would be removed, and its namespace deleted with everything in it",
            f"mark it retired first: keep {name} with state: retired, run `up`, then remove it",
        )
        for name in sorted(live.owned(stack, *_NAMESPACE) - set(settings.tenants))
        if TENANT_LABEL in live.metadata[(*_NAMESPACE, "", name)].get("labels", {})
    ]
    if findings:
        raise TrainyardError("The stack is protected, and its tenants are removed only when retired", findings=findings)


def retired_tenants(settings: StackSettings, stack: str, access: ClusterAccess, live: LiveObjects) -> dict[str, str]:
    """Return what the deletion of the namespace of each retired tenant does, in words; only those that exist.

    Raises
    ------
    TrainyardError
        A namespace contains objects of its users, or it is unknown whether it does, and the settings do not say that
        they are deleted.
    """
    namespaces, deleted = _tenant_namespaces(settings, stack, live), terminating_namespaces(settings, stack, live)
    adopted = [name for name in namespaces if name not in deleted]
    effects = {
        name: f"namespace {name} was adopted and stays with everything in it, also the platform's objects"
        for name in adopted
    }
    contents = run_in_thread(lambda: _read(access, stack, deleted)) if deleted else {}
    if findings := [finding for name in deleted for finding in _kept_data(settings, name, contents[name])]:
        raise TrainyardError("The namespace of a retired tenant is not empty", findings=findings)
    return effects | {name: f"namespace {name} is deleted {_with(contents[name])}" for name in deleted}


def terminating_namespaces(settings: StackSettings, stack: str, live: LiveObjects) -> list[str]:
    """Return the namespaces of retired tenants that are deleted: those that exist and were not adopted."""
    return [name for name in _tenant_namespaces(settings, stack, live) if not _is_adopted(live, name)]


def _tenant_namespaces(settings: StackSettings, stack: str, live: LiveObjects) -> list[str]:
    return [name for name in settings.retired_tenants if name in live.owned(stack, *_NAMESPACE)]


def _kept_data(settings: StackSettings, name: str, contents: NamespaceContents | UnknownContents) -> Iterator[Finding]:
    if settings.tenants[name].delete_data or not contents:
        return
    path, fix = f"trainyard:tenants.{name}.deleteData", "set deleteData: true to delete them with the namespace"
    if isinstance(contents, UnknownContents):
        yield Finding(
            path,
            f"the objects in namespace {name} cannot be listed: {contents.reason}",
            f"list them as an administrator, then {fix}",
        )
    else:
        yield Finding(path, f"namespace {name} contains {contents}", f"delete or move them, or {fix}")


def _with(contents: NamespaceContents | UnknownContents) -> str:
    if isinstance(contents, UnknownContents):
        return "with everything in it, which cannot be listed"
    return f"with {contents}" if contents else "and contains no objects of its users"


async def _read(
    access: ClusterAccess, stack: str, namespaces: list[str]
) -> dict[str, NamespaceContents | UnknownContents]:
    async with Client.from_kubeconfig(access.kubeconfig, access.context, user_agent="trainyard-program") as client:

        async def read(name: str) -> NamespaceContents | UnknownContents:
            try:
                return await read_contents(client, name, stack=stack)
            except (ApiError, TransportError) as error:
                return UnknownContents(str(error))

        return dict(zip(namespaces, await asyncio.gather(*map(read, namespaces)), strict=True))


def _is_adopted(live: LiveObjects, name: str) -> bool:
    annotations = live.metadata[(*_NAMESPACE, "", name)].get("annotations", {})
    return bool(annotations.get(ADOPTED_ANNOTATION) == "true")
