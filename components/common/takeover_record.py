"""Record of the objects that a takeover changes, written before the first of them changes."""

from __future__ import annotations

from collections.abc import Sequence

from trainyard.cluster import ClusterAccess
from trainyard.errors import TrainyardError
from trainyard.kube import ApiError, Client, TransportError
from trainyard.live.former_objects import RECORD_NAMESPACE, FormerObject, record_name, save_record

from .threads import run_in_thread

__all__ = ["record_former_objects"]


def record_former_objects(access: ClusterAccess, stack: str, objects: Sequence[FormerObject]) -> None:
    """Record objects as they are before their takeover, so that `destroy` gives them back.

    Raises
    ------
    TrainyardError
        The record cannot be written; nothing has changed then.
    """
    if not objects:
        return

    async def save() -> None:
        async with Client.from_kubeconfig(access.kubeconfig, access.context) as client:
            await save_record(client, stack, objects)

    try:
        run_in_thread(save)
    except (ApiError, TransportError) as error:
        raise TrainyardError(
            f"The objects before their takeover cannot be recorded, so nothing is written: {error}",
            fix=f"use credentials that may write Secret {record_name(stack)} in namespace {RECORD_NAMESPACE}",
        ) from error
