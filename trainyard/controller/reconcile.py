"""TrainJob reconciler (level-triggered): observe, decide, execute, write the status."""

from __future__ import annotations

import contextlib
import datetime
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from trainyard.checks.finding import Finding
from trainyard.controller import actions, lifecycle
from trainyard.controller import status as statuses
from trainyard.controller.actions import Inputs
from trainyard.controller.cluster_cache import ClusterCache
from trainyard.controller.execution import ActionEffect, Executor
from trainyard.controller.failure_events import FailureEvents, age, passed
from trainyard.controller.job_sets import summary
from trainyard.controller.lifecycle import (
    ObservedJob,
    RenderPurpose,
    decide,
    needs_confirmation,
    needs_search,
    needs_stored_job_set,
    required_build,
)
from trainyard.controller.missing_snapshots import MissingSnapshots
from trainyard.controller.observation import Observer, ReconcileAttempt
from trainyard.controller.policy_review import PolicyReviewer
from trainyard.controller.rejections import is_transient, rejection_of
from trainyard.controller.resources import FIELD_MANAGER
from trainyard.controller.unrecorded import UnrecordedJobSets
from trainyard.kube.api_errors import ApiError, FencedError, TransportError
from trainyard.kube.backoff import Backoff
from trainyard.kube.client import Client
from trainyard.kube.event_recorder import EventRecorder
from trainyard.kube.resource import Key, Object, key_of, uid_of
from trainyard.kube.training_kinds import TRAIN_JOBS
from trainyard.policy.gate import unavailable
from trainyard.policy.review import DecisionUnavailableError

_MAXIMUM_ACTIONS = 8
_RETRY_SECONDS = 0.5, 60.0
_TRANSIENT_SECONDS = 0.5
_TRANSIENT_DURATION = datetime.timedelta(minutes=2)
_RECORD_SECONDS = 1.0
_LEAST_RECORD_SECONDS = 0.1
_PRUNED_DURATION = datetime.timedelta(minutes=10)
_DELETING_SECONDS = 5.0
_UNLABELED_SECONDS = 5.0
"""Seconds after which a JobSet is read again that the watch does not report: it lacks the label."""
_LEAST_SECONDS = 1.0
_LONGEST_SECONDS = 86_400.0
_UNCHANGED = "JobSetUnchanged"
_REMADE = "JobSetRemade"


@dataclass(frozen=True)
class BlockedReconcile:
    """Reason that a TrainJob is blocked.

    Parameters
    ----------
    reason
        Reason of the event, for metrics.
    message
        Message of the event, which may be shorter.
    """

    reason: str
    message: str


@dataclass(frozen=True)
class ReconcileResult:
    """Result of a reconciliation.

    Parameters
    ----------
    requeue_after
        Seconds until the next reconciliation; None: on the next change.
    blocked
        Why the TrainJob is blocked; None: not blocked.
    writes
        Writes, for the log.
    """

    requeue_after: float | None = None
    blocked: BlockedReconcile | None = None
    writes: tuple[str, ...] = ()


class Reconciler:
    """Reconciles TrainJobs.

    Parameters
    ----------
    client
        Fenced API client.
    cache
        Cluster cache.
    events
        Event recorder.
    policies
        Policies of rendered objects; None: policies are off.
    clock
        Wall clock (UTC).
    uniform
        Source of randomness for the retries of blocked TrainJobs.
    record_seconds
        Seconds after which a JobSet is recorded by a separate status write. JobSet's controller is usually faster; then
        the record is part of the write of the first pod counts.
    """

    def __init__(
        self,
        client: Client,
        cache: ClusterCache,
        events: EventRecorder,
        *,
        policies: PolicyReviewer | None = None,
        clock: Callable[[], datetime.datetime] = lambda: datetime.datetime.now(datetime.UTC),
        uniform: Callable[[], float] = random.random,
        record_seconds: float = _RECORD_SECONDS,
    ) -> None:
        self._client = client
        self._cache = cache
        self._events = events
        self._observer = Observer(client, cache, clock)
        self._executor = Executor(client, cache, policies, clock)
        self._snapshots = MissingSnapshots(client, cache)
        self._clock = clock
        self._uniform = uniform
        self._failure_events = FailureEvents(events, clock)
        self._backoffs: dict[Key, Backoff] = {}
        self._ending: dict[Key, str] = {}
        self._pruned_at: datetime.datetime | None = None
        self._unrecorded = UnrecordedJobSets(record_seconds)

    @property
    def _record_supported(self) -> bool:
        """Whether the API server stores status.jobSet; tried again ten minutes after it was pruned."""
        return self._pruned_at is None or passed(self._clock() - self._pruned_at, _PRUNED_DURATION)

    def forget(self, key: Key) -> None:
        """Drop the state of a deleted TrainJob."""
        self._failure_events.forget(key)
        self._backoffs.pop(key, None)
        self._ending.pop(key, None)
        self._unrecorded.forget(key)
        self._snapshots.forget(key)
        self._executor.forget(key)

    def search_by_name(self, keys: Iterable[Key]) -> None:
        """Look for the objects of TrainJobs by name if these have finished: their label could not be restored.

        Parameters
        ----------
        keys
            Namespace and name of cached TrainJobs.
        """
        for key in keys:
            if (job := self._cache.train_jobs.store.get(*key)) is not None:
                self._ending[key] = uid_of(job)

    def until_deadline(self, key: Key) -> float | None:
        """Return the seconds until a TrainJob's deadline; None if it has none or has passed it."""
        job = self._cache.train_jobs.store.get(*key)
        seconds = None if job is None else self._seconds_to_deadline(job)
        return None if seconds is None or seconds <= 0 else min(max(_LEAST_SECONDS, seconds), _LONGEST_SECONDS)

    def _seconds_to_deadline(self, job: Object) -> float | None:
        deadline = statuses.deadline(job, job.get("status") or {})
        return None if deadline is None else (deadline - self._clock()).total_seconds()

    async def reconcile(self, key: Key) -> ReconcileResult:
        """Reconcile one TrainJob; its status is written even if other writes are rejected.

        Raises
        ------
        ApiError, TransportError
            If the API server failed or did not respond; retry.
        DecisionUnavailableError
            If there is no policy decision, so no object was created; retry.
        FencedError
            If this process is no longer the leader.
        """
        train_job = self._cache.train_jobs.store.get(*key)
        if train_job is None:
            self.forget(key)
            return ReconcileResult()
        attempt = ReconcileAttempt(train_job)
        for _ in range(_MAXIMUM_ACTIONS):
            failure: Exception | None = None
            effect = ActionEffect()
            try:
                effect = await self._advance(attempt)
            except FencedError:
                raise
            except Exception as error:  # The status is written even after an unexpected error.
                failure = error
                if await self._find_unlabeled_job_set(attempt):
                    continue
                attempt.blocked = self._blocked(attempt, error)
            try:
                if await self._write_status(attempt):
                    continue
            except FencedError:
                raise
            except Exception as error:
                failure = failure or error
            if failure is not None:
                return self._failed(key, attempt, failure)
            if not effect.requeue:
                break
        self._ending.pop(key, None)
        self._failure_events.forget(key)
        self._backoffs.pop(key, None)
        waits = (self._requeue_after(attempt), self._unlabeled_after(attempt))
        due = min((seconds for seconds in waits if seconds is not None), default=None)
        return ReconcileResult(requeue_after=due, writes=tuple(attempt.writes))

    async def _advance(self, attempt: ReconcileAttempt) -> ActionEffect:
        observed = self._observe(attempt)
        if needs_confirmation(observed):
            await self._observer.confirm(attempt)
            observed = self._observe(attempt)
        if needs_stored_job_set(observed):
            await self._observer.read_job_set(attempt)
            observed = self._observe(attempt)
        if self._ending.get(key_of(attempt.train_job)) == uid_of(attempt.train_job) and needs_search(observed):
            await self._observer.search(attempt, observed)
            observed = self._observe(attempt)
        build = required_build(observed)
        if build is not None:
            observed = self._observe(attempt, await self._observer.inputs(attempt, build))
        action = decide(observed)
        if isinstance(action, actions.ReportErrors) and build is RenderPurpose.CREATE and not attempt.use_snapshot:
            # The snapshot of an earlier attempt takes precedence: the runtime may have changed since.
            attempt.use_snapshot = True
            inputs = await self._observer.inputs(attempt, build)
            if inputs.from_snapshot:
                action = decide(self._observe(attempt, inputs))
        if isinstance(action, actions.Recreate):
            await self._record_recreation(attempt, action)
            if not self._record_supported:
                action = decide(self._observe(attempt, observed.inputs))
        effect = await self._executor.execute(observed, action)
        attempt.writes += await self._snapshots.create(observed)
        if effect.writes:
            attempt.found = attempt.stored = None
        attempt.writes += effect.writes
        attempt.use_snapshot = attempt.use_snapshot or effect.snapshot_exists
        if effect.created is not None:
            self._unrecorded.add(attempt.train_job, effect.created)
            if self._cache.job_set(attempt.train_job) is None:
                attempt.found = summary(effect.created)  # Its label was removed on admission.
        if effect.warning:
            self._events.warning(attempt.train_job, _UNCHANGED, f"the JobSet resumes unchanged: {effect.warning}")
        return effect

    def _observe(self, attempt: ReconcileAttempt, inputs: Inputs | None = None) -> ObservedJob:
        created = self._unrecorded.uid(attempt.train_job)
        return self._observer.observe(attempt, inputs, record_supported=self._record_supported, created=created)

    async def _find_unlabeled_job_set(self, attempt: ReconcileAttempt) -> bool:
        """After a failed create, return whether the TrainJob owns a JobSet that lacks the label of the watch."""
        observed = self._observe(attempt)
        if observed.job_set is not None or observed.awaits_job_set or attempt.confirmed_absent:
            return False
        with contextlib.suppress(ApiError, TransportError):
            await self._observer.confirm(attempt)
        if attempt.found is not None and statuses.pending_recreation(attempt.train_job) == uid_of(attempt.found):
            attempt.found = None  # The create is retried until this JobSet is gone.
        return attempt.found is not None

    async def _record_recreation(self, attempt: ReconcileAttempt, action: actions.Recreate) -> None:
        """Record in the status why the JobSet will be deleted."""
        uid = uid_of(action.job_set)
        if statuses.pending_recreation(attempt.train_job) == uid:
            return
        stored = attempt.train_job.get("status") or {}
        await self._patch_status(attempt, statuses.with_recreation(stored, uid, action.reason))
        if self._record_supported:
            self._events.normal(attempt.train_job, _REMADE, f"the JobSet is recreated: {action.reason}")

    async def _write_status(self, attempt: ReconcileAttempt) -> bool:
        """Update the status; return whether it recorded an end or a recreated JobSet, so that there is more to do."""
        job = attempt.train_job
        if not lifecycle.is_managed(job):
            return False
        desired = self._observe(attempt).desired_status
        patch = statuses.status_patch(job.get("status") or {}, desired)
        if not self._record_supported:
            patch.pop("jobSet", None)
        remade = "jobSet" in patch and statuses.pending_recreation(job) is not None
        if not patch or (set(patch) == {"jobSet"} and not remade and self._unrecorded.wait(job)):
            return False
        ends = not statuses.finished(job) and statuses.finished({"status": desired})
        if ends:
            self._ending[key_of(job)] = uid_of(job)  # The patch may be applied although its response is lost.
        await self._patch_status(attempt, desired)
        return ends or remade

    async def _patch_status(self, attempt: ReconcileAttempt, desired: Object) -> None:
        job = attempt.train_job
        metadata = job["metadata"]
        stored_status = job.get("status") or {}
        patch = {
            "metadata": {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]},
            "status": statuses.status_patch(stored_status, desired),
        }
        stored = await self._client.merge_patch(
            TRAIN_JOBS,
            metadata["name"],
            patch,
            namespace=metadata["namespace"],
            subresource="status",
            field_manager=FIELD_MANAGER,
        )
        if "jobSet" in patch["status"] and "jobSet" not in (stored.get("status") or {}):
            # The CRD is upstream's, without status.jobSet: pod counts replace the record.
            self._pruned_at = self._clock()
        self._unrecorded.written(stored)
        self._cache.train_jobs.record_write(stored)
        attempt.train_job = stored
        attempt.writes.append("patch status")

    def _requeue_after(self, attempt: ReconcileAttempt) -> float | None:
        """Return the seconds until the next time-based reconciliation, or None."""
        job = attempt.train_job
        due: list[float] = []
        if (seconds := self._seconds_to_deadline(job)) is not None:
            due.append(max(_LEAST_SECONDS, seconds))
        job_set = self._cache.job_set(job) or attempt.found
        if job_set is not None and not statuses.finished(job):
            if job_set["metadata"].get("deletionTimestamp"):
                due.append(_DELETING_SECONDS)
            if self._record_supported and not statuses.is_recorded(job, job_set):
                due.append(max(_LEAST_RECORD_SECONDS, self._unrecorded.wait(job)))
        return min(min(due), _LONGEST_SECONDS) if due else None

    def _unlabeled_after(self, attempt: ReconcileAttempt) -> float | None:
        """Return the seconds until a JobSet that the cache lacks is read again, or None if there is none."""
        job = attempt.train_job
        if statuses.finished(job) or not lifecycle.is_managed(job) or self._cache.job_set(job) is not None:
            return None
        return _UNLABELED_SECONDS if attempt.found is not None or self._observe(attempt).awaits_job_set else None

    def _blocked(self, attempt: ReconcileAttempt, error: Exception) -> tuple[str, str] | None:
        """Return reason and message of the condition, or None if the error is retried, or does not last."""
        rejection = rejection_of(error)
        if rejection is None or self._failure_events.too_early(attempt.train_job, defer=is_transient(error)):
            return None
        findings, reason = rejection
        return reason, self._failure_events.message(findings)

    def _failed(self, key: Key, attempt: ReconcileAttempt, error: Exception) -> ReconcileResult:
        """Record an event about an error and return when to retry; reraise errors that the queue retries."""
        job = attempt.train_job
        rejection = rejection_of(error)
        if rejection is None:
            match error:
                case DecisionUnavailableError():
                    self._failure_events.record(job, (unavailable(error),))
                case ApiError() if not error.conflict and (error.status >= 500 or error.not_served):
                    self._failure_events.record(job, (Finding("", error.message),))
            raise error
        findings, reason = rejection
        transient = is_transient(error)
        text = self._failure_events.record(job, findings, reason, defer=transient)
        backoff = self._backoffs.setdefault(key, Backoff(*_RETRY_SECONDS, uniform=self._uniform))
        waits = [backoff.next()]
        if transient and age(job, self._clock()) < _TRANSIENT_DURATION:
            waits.append(_TRANSIENT_SECONDS)
        if (due := self._requeue_after(attempt)) is not None:
            waits.append(due)
        blocked = BlockedReconcile(reason, text)
        return ReconcileResult(requeue_after=min(waits), blocked=blocked, writes=tuple(attempt.writes))
