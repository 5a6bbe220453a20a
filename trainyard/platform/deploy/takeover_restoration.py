"""Restoration of a former installation after the objects of the stack that took it over are deleted."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from trainyard.checks.finding import Finding
from trainyard.errors import TrainyardError
from trainyard.kube.api_errors import ApiError, TransportError
from trainyard.kube.client import Client
from trainyard.local.cluster.provider import ClusterAccess
from trainyard.platform.takeover.former_objects import (
    RECORD_NAMESPACE,
    FormerObject,
    delete_record,
    read_record,
    record_name,
)
from trainyard.platform.takeover.restoration import RESTORATION_MANAGER, Restoration, restore
from trainyard.progress import Progress


def read_former(access: ClusterAccess, stack: str) -> list[FormerObject]:
    """Return what a stack has taken over or replaced, as it was, before the objects of the stack are deleted.

    Raises
    ------
    TrainyardError
        The record cannot be read.
    """

    async def read() -> list[FormerObject]:
        async with Client.from_kubeconfig(access.kubeconfig, access.context) as client:
            return await read_record(client, stack)

    try:
        return asyncio.run(read())
    except (ApiError, TransportError) as error:
        raise TrainyardError(
            f"The record of what stack {stack} has taken over cannot be read, so nothing is deleted: {error}",
            fix=f"use credentials that may read Secret {record_name(stack)} in namespace {RECORD_NAMESPACE}",
        ) from error


def restore_former(
    access: ClusterAccess, stack: str, objects: Sequence[FormerObject], progress: Progress
) -> Restoration:
    """Restore what a stack has taken over or replaced; the record is deleted when everything is restored."""
    return asyncio.run(_restore(access, stack, objects, progress)) if objects else Restoration()


async def _restore(
    access: ClusterAccess, stack: str, objects: Sequence[FormerObject], progress: Progress
) -> Restoration:
    # The API server derives the field manager from the user agent.
    async with Client.from_kubeconfig(access.kubeconfig, access.context, user_agent=RESTORATION_MANAGER) as client:
        with progress.step("Former installation") as step:
            step.update(f"restoring {len(objects)} objects")
            found = await restore(client, stack, objects)
            if not found.failures:
                found.failures += await _without_record(client, stack)
            if found.failures:
                fix = f"correct this and run `trainyard destroy --stack {stack}` again, which continues from here"
                found.failures = [Finding(each.path, each.message, fix) for each in found.failures]
                step.done(f"{len(found.failures)} of {len(objects)} objects could not be restored")
            else:
                step.done(f"{len(objects)} objects are as they were")
    return found


async def _without_record(client: Client, stack: str) -> list[Finding]:
    """Delete the record, and return why it is still there."""
    try:
        await delete_record(client, stack)
    except (ApiError, TransportError) as error:
        name = f"Secret {RECORD_NAMESPACE}/{record_name(stack)}"
        return [Finding(name, f"the record of the restored objects cannot be deleted: {error}")]
    return []
