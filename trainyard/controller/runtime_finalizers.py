"""Finalizers of upstream v2.2 and earlier on runtimes, the leader's side: remove them.

Those controllers put ``trainer.kubeflow.org/resource-in-use`` on each runtime that a TrainJob names and take it off
when the runtime is deleted and unused. Without them a runtime could never be deleted (v2.3 removes it too).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Final

from trainyard.controller.level_triggered import keep
from trainyard.kube import ApiError, Backoff, Change, Client, Informer, Key, Object, TransportError, uid_of

__all__ = ["RESOURCE_IN_USE", "RuntimeFinalizers"]

RESOURCE_IN_USE: Final = "trainer.kubeflow.org/resource-in-use"

_LOG = logging.getLogger(__name__)
_FIELD_MANAGER = "trainyard-controller"
_LEFT_SECONDS = 60.0


class RuntimeFinalizers:
    """Takes the finalizer off; decided from what is stored, so it may be stopped between any two writes.

    Parameters
    ----------
    client
        Fenced API client.
    informers
        Informers of runtimes; they run elsewhere.
    backoff
        Waiting after failures.
    """

    def __init__(self, client: Client, informers: Sequence[Informer], *, backoff: Backoff | None = None) -> None:
        self._client = client
        self._informers = tuple(informers)
        self._backoff = backoff or Backoff(0.5, _LEFT_SECONDS)
        self._changed = asyncio.Event()
        for informer in self._informers:
            informer.subscribe(self._on_change)

    async def run(self) -> None:
        """Work until cancelled."""
        await keep(self.step, self._changed, self._backoff)

    async def step(self) -> bool:
        """Take the finalizer off every runtime that has it; return whether none is left."""
        done = True
        for informer in self._informers:
            for body in informer.store:
                if RESOURCE_IN_USE in (body["metadata"].get("finalizers") or ()):
                    done &= await self._release(informer, body)
        return done

    async def _release(self, informer: Informer, body: Object) -> bool:
        metadata = body["metadata"]
        kept = [entry for entry in metadata["finalizers"] if entry != RESOURCE_IN_USE]
        precondition = {"uid": uid_of(body), "resourceVersion": metadata["resourceVersion"]}
        patch = {"metadata": {**precondition, "finalizers": kept or None}}
        key: Key = metadata.get("namespace") or "", metadata["name"]
        try:
            stored = await self._client.merge_patch(
                informer.resource, key[1], patch, namespace=key[0] or None, field_manager=_FIELD_MANAGER
            )
        except ApiError as error:
            if error.not_found:
                return True
            _LOG.warning("finalizer of %s %s: %s", informer.resource.kind, "/".join(key), error)
            return False
        except TransportError as error:
            _LOG.warning("finalizer of %s %s: %s", informer.resource.kind, "/".join(key), error)
            return False
        if not metadata.get("deletionTimestamp"):
            informer.record_write(stored)
        return True

    def _on_change(self, change: Change) -> None:
        if change.new is not None and RESOURCE_IN_USE in (change.new["metadata"].get("finalizers") or ()):
            self._changed.set()
