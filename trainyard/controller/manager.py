"""Manager: map changed objects to TrainJobs to reconcile, and run the workers."""

from __future__ import annotations

import asyncio
import functools
import json
import logging
import time
from collections.abc import Callable, Iterator
from typing import Any

from trainyard.api.constants import API_VERSION, TRAIN_JOB
from trainyard.controller.cluster_cache import ClusterCache
from trainyard.controller.metrics import CONTROLLER, Metrics
from trainyard.controller.reconcile import BlockedReconcile, Reconciler, ReconcileResult
from trainyard.controller.status import runtime_reference
from trainyard.kube.api_errors import ApiError, FencedError, TransportError
from trainyard.kube.informer import Informer
from trainyard.kube.resource import Key, Object, controller_of, uid_of
from trainyard.kube.store import StoreChange
from trainyard.kube.work_queue import QueueClosedError, WorkQueue
from trainyard.policy.review import DecisionUnavailableError

_LOG = logging.getLogger(__name__)
_NEW, _BULK = 0, 1
_COALESCE_SECONDS = 0.075
_LONGEST_RETRY_AFTER = 60.0
"""A proxy in maintenance may ask for hours."""


class Manager:
    """The work queue of TrainJobs and its workers.

    Parameters
    ----------
    cache
        Cluster cache, whose changes fill the queue.
    reconciler
        Reconciles TrainJobs.
    metrics
        Metrics of queue and workers.
    workers
        Concurrent reconciliations.
    """

    def __init__(self, cache: ClusterCache, reconciler: Reconciler, metrics: Metrics, *, workers: int) -> None:
        self._cache = cache
        self._reconciler = reconciler
        self._metrics = metrics
        self._workers = workers
        self._blocked: dict[Key, tuple[BlockedReconcile, float]] = {}
        self.queue: WorkQueue[Key] = WorkQueue(enabled=False)
        metrics.watch_depth(CONTROLLER, self.queue.__len__)
        metrics.watch_blocked(self.blocked)
        metrics.workers.labels(CONTROLLER).set(workers)
        cache.train_jobs.subscribe(self._on_train_job)
        for children in cache.children:
            children.subscribe(self._on_child)
        for informer, affects in self._rendering_inputs():
            informer.subscribe(functools.partial(self._on_input, affects))

    async def run(self) -> None:
        """Run the workers until cancelled or `stop`; a FencedError of one worker stops all.

        Raises
        ------
        FencedError
            If this process is no longer the leader.
        """
        self.queue.enable()
        for key in self._cache.train_jobs.store.keys():  # noqa: SIM118 - a store, not a mapping
            self._add(key, _BULK)
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(self._workers):
                    group.create_task(self._work())
        finally:
            self.queue.disable()
            self._blocked.clear()

    def blocked(self) -> dict[str, tuple[int, float]]:
        """Return by reason the number of blocked TrainJobs and the earliest start, in monotonic seconds."""
        found: dict[str, tuple[int, float]] = {}
        for blocked, since in self._blocked.values():
            count, oldest = found.get(blocked.reason, (0, since))
            found[blocked.reason] = count + 1, min(oldest, since)
        return found

    def stop(self) -> None:
        """Close the queue; `run` returns when the running reconciliations are done."""
        self.queue.close()

    async def _work(self) -> None:
        while True:
            try:
                key = await self.queue.get()
            except QueueClosedError:
                return
            started = time.monotonic()
            self._metrics.active.inc()
            try:
                await self._reconcile(key)
            finally:
                self._metrics.active.dec()
                elapsed = time.monotonic() - started
                self._metrics.reconcile_seconds.observe(elapsed)
                self._metrics.work_seconds.observe(elapsed)
                self.queue.done(key)
            # A reconciliation without a write never awaits: thousands in a row would delay the renewal of the lease.
            await asyncio.sleep(0)

    async def _reconcile(self, key: Key) -> None:
        try:
            result = await self._reconciler.reconcile(key)
        except FencedError:
            raise
        except (ApiError, TransportError, DecisionUnavailableError) as error:
            self._failed(key, error)
        except Exception as error:
            _LOG.exception("TrainJob %s/%s", *key)
            self._failed(key, error)
        else:
            self._succeeded(key, result)
        if self._cache.train_jobs.store.get(*key) is None:
            self._forget(key)  # It was deleted meanwhile.

    def _succeeded(self, key: Key, result: ReconcileResult) -> None:
        self.queue.forget(key)
        self._record_blocked(key, result.blocked)
        if result.requeue_after is not None:
            self.queue.add_after(key, result.requeue_after, lane=_BULK)  # changed objects have priority
        label = "success" if result.requeue_after is None else "requeue_after"
        self._metrics.reconciles.labels(CONTROLLER, label).inc()
        if result.writes:
            _LOG.info(_log_line(key, writes=result.writes, blocked=result.blocked is not None))

    def _failed(self, key: Key, error: Exception) -> None:
        if not (isinstance(error, ApiError) and error.conflict):
            self._record_blocked(key, BlockedReconcile(type(error).__name__, str(error)))
        at_least = (error.retry_after or 0.0) if isinstance(error, ApiError) else 0.0
        delay = self.queue.retry(key, at_least=min(at_least, _LONGEST_RETRY_AFTER))
        if (deadline := self._reconciler.until_deadline(key)) is not None:
            self.queue.add_after(key, deadline, lane=_BULK)
            delay = min(delay, deadline)
        self._metrics.retries.labels(CONTROLLER).inc()
        self._metrics.reconciles.labels(CONTROLLER, "error").inc()
        self._metrics.reconcile_errors.labels(CONTROLLER).inc()
        _LOG.warning(_log_line(key, error=f"{type(error).__name__}: {error}", again=round(delay, 3)))

    def _record_blocked(self, key: Key, blocked: BlockedReconcile | None) -> None:
        """Record whether a TrainJob is blocked."""
        if blocked is None or self._cache.train_jobs.store.get(*key) is None:
            self._blocked.pop(key, None)
            return
        _, since = self._blocked.get(key, (blocked, time.monotonic()))
        self._blocked[key] = blocked, since

    def _add(self, key: Key, lane: int = _NEW) -> None:
        if self.queue.add(key, lane=lane):
            self._metrics.adds.inc()

    def _on_train_job(self, change: StoreChange) -> None:
        if change.new is None:
            self._forget(change.key)
            return
        if change.old is not None and uid_of(change.old) != uid_of(change.new):
            self._forget(change.key)  # A relist reports a deleted and created TrainJob as one change.
        if change.old is None or _without_progress(change.old) != _without_progress(change.new):
            self._add(change.key, _BULK if change.initial else _NEW)

    def _forget(self, key: Key) -> None:
        """Drop the state of a deleted TrainJob."""
        self._blocked.pop(key, None)
        self._reconciler.forget(key)
        self.queue.discard(key)

    def _on_child(self, change: StoreChange) -> None:
        """Queue the TrainJob that owns the child, and the one of the same name, which may conflict with it."""
        body = change.new or change.old
        owner = controller_of(body) if body is not None else None
        is_train_job = owner is not None and owner.get("kind") == TRAIN_JOB and owner.get("apiVersion") == API_VERSION
        names = {change.key[1]} | ({owner["name"]} if is_train_job and owner is not None else set())
        for name in names:
            key = change.key[0], name
            if self._cache.train_jobs.store.get(*key) is None:
                continue
            if _only_counts(change):
                self.queue.add_after(key, _COALESCE_SECONDS)
            else:
                self._add(key, _BULK if change.initial else _NEW)

    def _rendering_inputs(self) -> Iterator[tuple[Informer, Callable[[Object, Key, BlockedReconcile], bool]]]:
        """Yield the inputs of rendering, each with a predicate for the blocked TrainJobs that a change affects."""
        cache = self._cache
        yield cache.training_runtimes, self._names_runtime
        yield cache.cluster_training_runtimes, self._names_runtime
        yield cache.tenant_policies, lambda body, key, _: key[0] == body["metadata"].get("namespace")
        yield cache.namespaces, lambda body, key, _: key[0] == body["metadata"]["name"]
        yield cache.priority_classes, _lacks_class
        yield cache.platforms, lambda *_: True

    def _on_input(self, affects: Callable[[Object, Key, BlockedReconcile], bool], change: StoreChange) -> None:
        body = change.new or change.old
        for key, (blocked, _) in self._blocked.items():
            if body is not None and affects(body, key, blocked):
                self._add(key, _BULK)

    def _names_runtime(self, body: Object, key: Key, _: BlockedReconcile) -> bool:
        train_job = self._cache.train_jobs.store.get(*key)
        if train_job is None:
            return False
        named = runtime_reference(train_job)[1:]
        namespace = body["metadata"].get("namespace")
        return named == (body["kind"], body["metadata"]["name"]) and namespace in (None, key[0])


def _lacks_class(body: Object, _: Key, blocked: BlockedReconcile) -> bool:
    """Whether the message names a PriorityClass as missing; its fix lists those that exist, without quotes."""
    return f'PriorityClass "{body["metadata"]["name"]}"' in blocked.message


def _only_counts(change: StoreChange) -> bool:
    """Whether only pod counts changed; such changes are coalesced."""
    if change.old is None or change.new is None:
        return False
    return _relevant_fields(change.old) == _relevant_fields(change.new)


def _without_progress(train_job: Object) -> tuple[Any, ...]:
    """Return the fields of a TrainJob that trigger a reconciliation: not trainerStatus and resourceVersion."""
    metadata = {name: value for name, value in train_job["metadata"].items() if name != "resourceVersion"}
    status = {name: value for name, value in (train_job.get("status") or {}).items() if name != "trainerStatus"}
    return metadata, train_job.get("spec"), status


def _relevant_fields(body: Object) -> tuple[Any, ...]:
    metadata, status = body["metadata"], body.get("status") or {}
    return (
        metadata["uid"],
        metadata.get("generation"),
        metadata.get("deletionTimestamp"),
        metadata.get("ownerReferences"),
        status.get("conditions"),
    )


def _log_line(key: Key, **fields: Any) -> str:
    return json.dumps({"controller": CONTROLLER, "namespace": key[0], "name": key[1], **fields})
