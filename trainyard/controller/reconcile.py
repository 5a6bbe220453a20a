"""Reconcile one TrainJob, level-triggered: observe, decide, carry out, record the status."""

from __future__ import annotations

import contextlib
import datetime
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from trainyard.api import Runtime, TrainJob, parse
from trainyard.api.constants import RESOURCES_CREATION_FAILED, TRAINING_RUNTIME
from trainyard.controller import lifecycle
from trainyard.controller import status as statuses
from trainyard.controller.cluster_cache import ClusterView
from trainyard.controller.execution import Effect, Executor, RefusedError
from trainyard.controller.job_sets import summary
from trainyard.controller.lifecycle import Build, Inputs, Observed, build_of, decide, needs_confirmation
from trainyard.controller.ownership import OccupiedError, owns
from trainyard.controller.policies import Policies, told
from trainyard.controller.resources import FIELD_MANAGER, JOB_SETS, TRAIN_JOBS
from trainyard.controller.snapshots import stored_runtime
from trainyard.controller.unrecorded import Unrecorded
from trainyard.kube import ApiError, Backoff, Client, EventRecorder, Key, Object, TransportError, uid_of
from trainyard.policy.gate import unavailable
from trainyard.policy.review import DecisionUnavailableError
from trainyard.problem import Problem, TrainyardError

__all__ = ["Blocked", "Outcome", "Reconciler"]

_MESSAGE_LIMIT = 950
_ROUNDS = 8
_RETRY_SECONDS = 0.5, 60.0
_LEAVING_SECONDS = 0.5
_LEAVING_FOR = datetime.timedelta(minutes=2)
_PATIENCE = datetime.timedelta(seconds=5)
_TOLD_AGAIN = datetime.timedelta(minutes=1)
_RECORD_SECONDS = 1.0
_SOON = 0.1
_PRUNED_FOR = datetime.timedelta(minutes=10)
_DELETING_SECONDS = 5.0
_LEAST_SECONDS = 1.0
_LONGEST_SECONDS = 86_400.0
_REFUSED = (400, 403, 413, 422)
_UNCHANGED = "JobSetUnchanged"
_REMADE = "JobSetRemade"


@dataclass(frozen=True)
class Blocked:
    """Why a TrainJob does not get on.

    Parameters
    ----------
    reason
        Reason of the event, for metrics.
    message
        What the event says.
    """

    reason: str
    message: str


@dataclass(frozen=True)
class Outcome:
    """What happens with the TrainJob next.

    Parameters
    ----------
    after
        Seconds after which it is looked at again; None: when something changes.
    blocked
        Why nothing was created, None where nothing is in the way.
    writes
        What was written, for the log.
    """

    after: float | None = None
    blocked: Blocked | None = None
    writes: tuple[str, ...] = ()


@dataclass
class _Pass:
    """One pass over one TrainJob."""

    train_job: Object
    found: Object | None = None
    confirmed_absent: bool = False
    use_snapshot: bool = False
    writes: list[str] = field(default_factory=list)


class Reconciler:
    """Reconciles TrainJobs.

    Parameters
    ----------
    client
        Fenced API client.
    view
        The informers.
    events
        Event recorder.
    policies
        Judges what is about to be created; None where policies are off.
    clock
        Wall clock (UTC).
    uniform
        Randomness of the time between two looks at a blocked TrainJob.
    record_seconds
        Seconds after which a JobSet is recorded by a write of its own. JobSet's controller is usually faster, and the
        record then goes with the first counts of pods.
    """

    def __init__(
        self,
        client: Client,
        view: ClusterView,
        events: EventRecorder,
        *,
        policies: Policies | None = None,
        clock: Callable[[], datetime.datetime] = lambda: datetime.datetime.now(datetime.UTC),
        uniform: Callable[[], float] = random.random,
        record_seconds: float = _RECORD_SECONDS,
    ) -> None:
        self._client = client
        self._view = view
        self._events = events
        self._executor = Executor(client, view, policies)
        self._clock = clock
        self._uniform = uniform
        self._told: dict[Key, tuple[str, datetime.datetime]] = {}
        self._refusals: dict[Key, Backoff] = {}
        self._pruned_at: datetime.datetime | None = None
        self._unrecorded = Unrecorded(record_seconds)

    @property
    def _records(self) -> bool:
        """Whether the API server keeps records of JobSets, as far as is known; asked again every ten minutes."""
        return self._pruned_at is None or self._clock() - self._pruned_at >= _PRUNED_FOR

    def forget(self, key: Key) -> None:
        """Drop what is remembered of a TrainJob that is gone."""
        self._told.pop(key, None)
        self._refusals.pop(key, None)
        self._unrecorded.forget(key)

    async def reconcile(self, key: Key) -> Outcome:
        """Take one TrainJob as far as it can go now; its status is written whatever else is refused.

        Raises
        ------
        ApiError, TransportError
            If the API server failed or did not answer; try again later.
        DecisionUnavailableError
            If the policy server gave no decision, and so nothing was created; try again later.
        FencedError
            If this process no longer leads.
        """
        train_job = self._view.train_jobs.store.get(*key)
        if train_job is None:
            self.forget(key)
            return Outcome()
        step = _Pass(train_job)
        for _ in range(_ROUNDS):
            failure: Exception | None = None
            effect = Effect()
            try:
                effect = await self._advance(step)
            except (RefusedError, TrainyardError, ApiError, TransportError, DecisionUnavailableError) as error:
                failure = error
                if await self._unseen(step, error):
                    continue
            ended = await self._write_status(step)
            if failure is not None:
                return self._failed(key, step, failure)
            if not (effect.again or ended):
                break
        self._told.pop(key, None)
        self._refusals.pop(key, None)
        return Outcome(after=self._next_look(step), writes=tuple(step.writes))

    async def _advance(self, step: _Pass) -> Effect:
        observed = self._observe(step)
        if needs_confirmation(observed):
            await self._confirm(step)
            observed = self._observe(step)
        build = build_of(observed)
        if build is not None:
            observed = self._observe(step, await self._inputs(step, observed, build))
        action = decide(observed)
        if isinstance(action, lifecycle.Report) and build is Build.CREATE and not step.use_snapshot:
            # What was created before decides, where there is anything: the runtime may have changed since.
            step.use_snapshot = True
            inputs = await self._inputs(step, observed, build)
            if inputs.from_snapshot:
                action = decide(self._observe(step, inputs))
        if isinstance(action, lifecycle.Remake):
            await self._record_remake(step, action)
            if not self._records:
                action = decide(self._observe(step, observed.inputs))
        effect = await self._executor.execute(observed, action)
        if effect.writes:
            step.found = None
        step.writes += effect.writes
        step.use_snapshot = step.use_snapshot or effect.snapshot_exists
        if effect.created and (made := self._view.job_set(step.train_job)) is not None:
            self._unrecorded.add(step.train_job, made)
        if effect.note:
            self._events.warning(step.train_job, _UNCHANGED, f"the JobSet resumes as it is: {effect.note}")
        return effect

    def _observe(self, step: _Pass, inputs: Inputs | None = None) -> Observed:
        job = step.train_job
        return Observed(
            train_job=job,
            now=self._clock(),
            job_set=self._view.job_set(job) or step.found,
            confirmed_absent=step.confirmed_absent,
            pod_groups=self._view.pod_groups_of(job),
            inputs=inputs,
            records=self._records,
            created=self._unrecorded.uid(job),
        )

    async def _confirm(self, step: _Pass) -> None:
        """Look past the cache whether the recorded JobSet is gone: a label or a stale watch may hide it."""
        metadata = step.train_job["metadata"]
        stored = await self._client.find(JOB_SETS, metadata["name"], namespace=metadata["namespace"])
        if stored is not None and owns(step.train_job, stored):
            step.found = summary(stored)
        else:
            step.confirmed_absent = True

    async def _unseen(self, step: _Pass, error: Exception) -> bool:
        """Return whether a rejected create hid a JobSet of the TrainJob: without its label no watch shows it."""
        unanswered = isinstance(error, TransportError)
        if unanswered or self._observe(step).job_set is not None or step.confirmed_absent:
            return False
        with contextlib.suppress(ApiError, TransportError):
            await self._confirm(step)
        return step.found is not None

    async def _inputs(self, step: _Pass, observed: Observed, build: Build) -> Inputs:
        """Return what rendering needs; what the user has to change comes back as problems."""
        job = step.train_job
        try:
            parsed, context = parse(TrainJob, job), self._view.context(job)
        except TrainyardError as error:
            return Inputs(problems=error.problems or (Problem("", error.message, error.fix),))
        first = build is Build.CREATE and not step.use_snapshot and statuses.remake_of(job) is None
        runtime, kept = await self._runtime(parsed, job, first=first)
        if runtime is None:
            _, kind, name = statuses.runtime_reference(job)
            where = f" in namespace {job['metadata']['namespace']}" if kind == TRAINING_RUNTIME else ""
            missing = f"{kind} {name!r} does not exist{where}"
            return Inputs(problems=(Problem("spec.runtimeRef", missing, "create it or name another"),))
        job_set: Object | None = None
        if build is Build.RESUME and observed.job_set is not None:
            metadata = job["metadata"]
            job_set = await self._client.find(JOB_SETS, metadata["name"], namespace=metadata["namespace"])
            if job_set is not None and uid_of(job_set) != uid_of(observed.job_set):
                job_set = None
        return Inputs(parsed, runtime, kept, context, job_set=job_set)

    async def _runtime(self, parsed: TrainJob, job: Object, *, first: bool) -> tuple[Runtime | None, bool]:
        """Return the runtime to render with and whether it comes from the snapshot."""
        live = self._view.runtime(job)
        if first and live is not None:
            return live, False
        kept = await stored_runtime(self._client, parsed)
        if kept is not None:
            return kept, True
        return live if live is not None else await self._view.live_runtime(job), False

    async def _record_remake(self, step: _Pass, action: lifecycle.Remake) -> None:
        """Record why the JobSet is deleted before it is."""
        uid = uid_of(action.job_set)
        if statuses.remake_of(step.train_job) == uid:
            return
        stored = step.train_job.get("status") or {}
        await self._patch_status(step, statuses.with_remake(stored, uid, action.reason))
        if self._records:
            self._events.normal(step.train_job, _REMADE, f"the JobSet is created again: {action.reason}")

    async def _write_status(self, step: _Pass) -> bool:
        """Bring the status up to date; return whether that recorded the end of the TrainJob."""
        job = step.train_job
        if not lifecycle.reconciled(job):
            return False
        wanted = self._observe(step).wanted_status
        patch = statuses.status_patch(job.get("status") or {}, wanted)
        if not self._records:
            patch.pop("jobSet", None)
        if not patch or (set(patch) == {"jobSet"} and self._unrecorded.wait(job)):
            return False
        before = statuses.finished(job)
        await self._patch_status(step, wanted)
        return not before and statuses.finished(step.train_job)

    async def _patch_status(self, step: _Pass, wanted: Object) -> None:
        job = step.train_job
        metadata = job["metadata"]
        stored_status = job.get("status") or {}
        patch = {
            "metadata": {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]},
            "status": statuses.status_patch(stored_status, wanted),
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
            # The CustomResourceDefinition is another project's: counts of pods stand in for the record.
            self._pruned_at = self._clock()
        self._unrecorded.written(stored)
        self._view.train_jobs.record_write(stored)
        step.train_job = stored
        step.writes.append("patch status")

    def _next_look(self, step: _Pass) -> float | None:
        """Return the seconds after which the TrainJob has to be looked at although nothing changed."""
        job = step.train_job
        due: list[float] = []
        deadline = statuses.deadline(job, job.get("status") or {})
        if deadline is not None:
            due.append(max(_LEAST_SECONDS, (deadline - self._clock()).total_seconds()))
        job_set = self._view.job_set(job)
        if job_set is not None and not statuses.finished(job):
            if job_set["metadata"].get("deletionTimestamp"):
                due.append(_DELETING_SECONDS)
            if self._records and not statuses.records(job, job_set):
                due.append(max(_SOON, self._unrecorded.wait(job)))
        return min(min(due), _LONGEST_SECONDS) if due else None

    def _failed(self, key: Key, step: _Pass, error: Exception) -> Outcome:
        """Tell the user what is in the way and say when it is tried again; raise what is no refusal."""
        job = step.train_job
        match error:
            case RefusedError():
                problems, reason = error.problems, error.reason
            case DecisionUnavailableError():
                self._tell(key, job, (unavailable(error),))
                raise error
            case TrainyardError():
                problems, reason = error.problems or (Problem("", error.message, error.fix),), RESOURCES_CREATION_FAILED
            case ApiError() if error.conflict:
                raise error
            case ApiError() if error.status in _REFUSED or error.too_large:
                problems, reason = (Problem("", error.message),), RESOURCES_CREATION_FAILED
            case ApiError() if error.status >= 500:
                self._tell(key, job, (Problem("", error.message),))
                raise error
            case _:
                raise error
        leaving = isinstance(error, OccupiedError) and error.leaving
        text = self._tell(key, job, problems, reason, patient=leaving)
        backoff = self._refusals.setdefault(key, Backoff(*_RETRY_SECONDS, uniform=self._uniform))
        waits = [backoff.next()]
        if leaving and self._age(job) < _LEAVING_FOR:
            waits.append(_LEAVING_SECONDS)
        if (look := self._next_look(step)) is not None:
            waits.append(look)
        return Outcome(after=min(waits), blocked=Blocked(reason, text), writes=tuple(step.writes))

    def _tell(
        self,
        key: Key,
        job: Object,
        problems: Iterable[Problem],
        reason: str = RESOURCES_CREATION_FAILED,
        *,
        patient: bool = False,
    ) -> str:
        """Record an event, the same one at most once a minute; return its message."""
        text = "TrainJob resources reconciliation failed: " + "; ".join(told(problem) for problem in problems)
        text = text[:_MESSAGE_LIMIT]
        now = self._clock()
        before, since = self._told.get(key, ("", now))
        if patient and self._age(job) < _PATIENCE:
            return text
        if before != text or now - since >= _TOLD_AGAIN:
            self._told[key] = (text, now)
            self._events.warning(job, reason, text)
        return text

    def _age(self, job: Object) -> datetime.timedelta:
        created = job["metadata"].get("creationTimestamp")
        if created is None:
            return datetime.timedelta()
        return self._clock() - datetime.datetime.fromisoformat(created.replace("Z", "+00:00"))
