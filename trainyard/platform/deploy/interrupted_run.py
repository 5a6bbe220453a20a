"""Continue after a killed run, whose state may differ from the cluster.

A run writes its state after each step, or only at its end (`PULUMI_SKIP_CHECKPOINTS`). What a killed one deleted is
then still in the state, and the engine, which compares the settings with the state, would find nothing to change. So
the state is read again from the cluster first. What a killed run created is imported by the program. An object whose
deletion has begun still exists for both, so its end is awaited.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any, Final

from trainyard.api.constants import ADOPTED_ANNOTATION, STACK_LABEL
from trainyard.checks.finding import Finding
from trainyard.errors import TrainyardError
from trainyard.kube.api_errors import ApiError, TransportError
from trainyard.kube.client import Client
from trainyard.kube.resource import Object
from trainyard.local.cluster.provider import ClusterAccess
from trainyard.platform.takeover.deletion_blockers import read_blockers
from trainyard.platform.takeover.owned_objects import read_owned

if TYPE_CHECKING:
    from pulumi.automation import Stack


_PATIENCE: Final = 120.0
_INTERVAL: Final = 0.5


def follow_cluster(
    stack: Stack,
    kinds: Collection[tuple[str, str]],
    access: ClusterAccess,
    options: dict[str, Any],
    report: Callable[[str], None],
    *,
    unlocked: bool,
) -> None:
    """Update the state from the live objects once the deletions that a killed run has begun have ended.

    A run in progress has begun deletions and pending operations too. Where its lock is not known, a refresh shows it
    before anything is awaited: the backend rejects it.

    Parameters
    ----------
    stack
        The opened stack.
    kinds
        API version and kind of the objects in its state.
    access
        Its cluster.
    options
        Options of the refresh.
    report
        Receives what it waits for.
    unlocked
        Whether no other run holds the stack.

    Raises
    ------
    ConcurrentUpdateError
        Another run holds the stack.
    TrainyardError
        A deletion does not end (its blockers are named), or the cluster cannot be read.
    """
    refreshed = {**options, "clear_pending_creates": True}
    try:
        if not unlocked and asyncio.run(_ending(access, stack.name, kinds)):
            report("reading the objects again")
            stack.refresh(**refreshed)
        asyncio.run(_await_deletions(access, stack.name, kinds, report))
    except (ApiError, TransportError) as error:
        raise TrainyardError(
            f"A run of stack {stack.name} was killed, and what it deleted cannot be read: {error}",
            fix="start the cluster, or use credentials that may list the objects of the stack",
        ) from error
    report("reading the objects again after a killed run")
    stack.refresh(**refreshed)


def reject_remains(access: ClusterAccess, stack: str, *, required: bool = False) -> None:
    """Fail if objects of a stack exist after it was destroyed: its state lacked them, so the engine deleted none.

    Parameters
    ----------
    access
        Its cluster.
    stack
        Name of the stack.
    required
        Whether former objects are restored next, over any that remain; otherwise users without permission to list
        every kind skip this check.

    Raises
    ------
    TrainyardError
        Names each object, or the check is required and the objects cannot be listed.
    """

    async def read() -> list[Object]:
        async with Client.from_kubeconfig(access.kubeconfig, access.context) as client:
            return await read_owned(client, stack)

    left: list[Object] = []
    try:
        left = [each for each in asyncio.run(read()) if _remains(each)]
    except (ApiError, TransportError) as error:
        if required:
            raise TrainyardError(
                f"Objects of stack {stack} that its state lacked cannot be listed, so nothing is restored: {error}",
                fix="correct this, or use credentials that may list every kind, and run "
                f"`trainyard destroy --stack {stack}` again, which continues from here",
            ) from error
    if left:
        raise TrainyardError(
            f"{len(left)} objects of stack {stack} remain, which its state lacked",
            findings=[Finding(_address(each), "exists, and was not in the state") for each in left],
            fix=f"run `trainyard up --stack {stack}`, which imports them, then `trainyard destroy --stack {stack}`; or "
            f"remove the label {STACK_LABEL} from objects that `up` does not declare",
        )


def _remains(body: Object) -> bool:
    metadata = body["metadata"]
    adopted = (metadata.get("annotations") or {}).get(ADOPTED_ANNOTATION) == "true"
    return not adopted and "deletionTimestamp" not in metadata


async def _ending(access: ClusterAccess, stack: str, kinds: Collection[tuple[str, str]]) -> list[Object]:
    async with Client.from_kubeconfig(access.kubeconfig, access.context) as client:
        return await _read_ending(client, stack, kinds)


async def _read_ending(client: Client, stack: str, kinds: Collection[tuple[str, str]]) -> list[Object]:
    """Return the objects of a stack that are being deleted."""
    return [each for each in await read_owned(client, stack, kinds) if "deletionTimestamp" in each["metadata"]]


async def _await_deletions(
    access: ClusterAccess, stack: str, kinds: Collection[tuple[str, str]], report: Callable[[str], None]
) -> None:
    deadline = time.monotonic() + _PATIENCE
    async with Client.from_kubeconfig(access.kubeconfig, access.context) as client:
        while ending := await _read_ending(client, stack, kinds):
            if time.monotonic() > deadline:
                raise TrainyardError(
                    f"{len(ending)} objects whose deletion a killed run has begun still exist",
                    findings=await _held(client, ending),
                    fix="remove what holds them, then run the command again",
                )
            report(f"waiting for the deletion of {_address(ending[0])}, which a killed run has begun")
            await asyncio.sleep(_INTERVAL)


async def _held(client: Client, bodies: Sequence[Object]) -> list[Finding]:
    findings = []
    for body in bodies:
        metadata = body["metadata"]
        blockers = await read_blockers(
            client, body["apiVersion"], body["kind"], metadata["name"], metadata.get("namespace", "")
        )
        findings.append(Finding(_address(body), "; ".join(map(str, blockers)) or "is being deleted"))
    return findings


def _address(body: Object) -> str:
    metadata = body["metadata"]
    return "/".join(part for part in (body["kind"], metadata.get("namespace", ""), metadata["name"]) if part)
