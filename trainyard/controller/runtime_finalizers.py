"""Runtime finalizers (leader only): remove the finalizers of upstream v2.2 and earlier.

Those controllers add ``trainer.kubeflow.org/resource-in-use`` to each runtime that a TrainJob references and remove it
when the runtime is deleted and unused. Without them, such a runtime could not be deleted (v2.3 removes it too).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Final

from trainyard.controller.level_triggered import run_level_triggered
from trainyard.kube.api_errors import ApiError, TransportError
from trainyard.kube.backoff import Backoff
from trainyard.kube.client import Client
from trainyard.kube.informer import Informer
from trainyard.kube.resource import Key, Object, uid_of
from trainyard.kube.store import StoreChange

RESOURCE_IN_USE: Final = "trainer.kubeflow.org/resource-in-use"

_LOG = logging.getLogger(__name__)
_FIELD_MANAGER = "trainyard-controller"
_MAXIMUM_BACKOFF_SECONDS = 60.0


class RuntimeFinalizers:
    """Remove the finalizer; stateless, so it can be stopped between any two writes.

    Parameters
    ----------
    client
        Fenced API client.
    informers
        Shared informers of runtimes; not started here.
    backoff
        Delays after failures.
    """

    def __init__(self, client: Client, informers: Sequence[Informer], *, backoff: Backoff | None = None) -> None:
        self._client = client
        self._informers = tuple(informers)
        self._backoff = backoff or Backoff(0.5, _MAXIMUM_BACKOFF_SECONDS)
        self._changed = asyncio.Event()
        for informer in self._informers:
            informer.subscribe(self._on_change)

    async def run(self) -> None:
        """Run until cancelled."""
        await run_level_triggered("finalizers of runtimes", self.step, self._changed, self._backoff)

    async def step(self) -> bool:
        """Remove the finalizer from all runtimes; return whether none is left."""
        done = True
        for informer in self._informers:
            for body in informer.store:
                if RESOURCE_IN_USE in (body["metadata"].get("finalizers") or ()):
                    done &= await self._remove_finalizer(informer, body)
        return done

    async def _remove_finalizer(self, informer: Informer, body: Object) -> bool:
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

    def _on_change(self, change: StoreChange) -> None:
        if change.new is not None and RESOURCE_IN_USE in (change.new["metadata"].get("finalizers") or ()):
            self._changed.set()
