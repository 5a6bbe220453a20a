"""Record of the objects that a takeover changes, written before the first of them changes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from trainyard.checks.finding import Finding
from trainyard.errors import TrainyardError
from trainyard.kube.api_errors import ApiError, TransportError
from trainyard.kube.client import Client
from trainyard.kube.training_kinds import QUEUES
from trainyard.local.cluster.provider import ClusterAccess
from trainyard.platform.pulumi_sdk.targets import has_targets
from trainyard.platform.takeover.former_objects import (
    RECORD_NAMESPACE,
    FormerObject,
    forget_objects,
    record_name,
    save_record,
)
from trainyard.platform.takeover.takeover import TakeoverAction
from trainyard.platform.takeover.takeover_plan import TakeoverPlan

from .threads import run_with_client


def record_former_objects(access: ClusterAccess, stack: str, objects: Sequence[FormerObject]) -> None:
    """Record objects as they are before their takeover, so that `destroy` gives them back.

    Raises
    ------
    TrainyardError
        The record cannot be written; nothing has changed then.
    """
    if not objects:
        return

    _write(access, stack, lambda client: save_record(client, stack, objects))


def reject_limited_takeover(plan: TakeoverPlan) -> None:
    """Reject a takeover in a run that is limited to targets.

    Raises
    ------
    TrainyardError
        Names the objects whose former state would be recorded.
    """
    taken = plan.of(TakeoverAction.TAKE, TakeoverAction.REPLACE)
    if taken and has_targets():
        raise TrainyardError(
            f"A takeover first records {len(taken)} objects as they are, which --target and --exclude would not limit",
            findings=[Finding(each.object, "belongs to another owner") for each in taken],
            fix="run once without --target and --exclude",
        )


def forget_former_queues(access: ClusterAccess, stack: str, queues: Sequence[str]) -> None:
    """Remove queues that are deleted from the record, so that `destroy` does not create them again.

    A run that is limited to targets writes no record.

    Raises
    ------
    TrainyardError
        The record cannot be written; nothing has changed then.
    """
    if queues and not has_targets():
        addresses = [(QUEUES.api_version, QUEUES.kind, None, name) for name in queues]
        _write(access, stack, lambda client: forget_objects(client, stack, addresses))


def _write(access: ClusterAccess, stack: str, write: Callable[[Client], Awaitable[None]]) -> None:
    try:
        run_with_client(access, write)
    except (ApiError, TransportError) as error:
        raise TrainyardError(
            f"The objects before their takeover cannot be recorded, so nothing is written: {error}",
            fix=f"use credentials that may write Secret {record_name(stack)} in namespace {RECORD_NAMESPACE}",
        ) from error
