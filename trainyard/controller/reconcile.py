"""One TrainJob, one step towards what it asks for. Everything is decided from what is observed, nothing from events."""

from __future__ import annotations

import datetime
import functools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from trainyard.api import Runtime, TrainJob, parse
from trainyard.api.constants import (
    CLUSTER_TRAINING_RUNTIME,
    GROUP,
    MANAGED_BY_TRAINER,
    POLICY_DENIED,
    RESOURCES_CREATION_FAILED,
    TRAINING_RUNTIME,
)
from trainyard.controller import status as statuses
from trainyard.controller.attachments import ATTACHED, Attachments
from trainyard.controller.children import Children, OccupiedError
from trainyard.controller.keys import generate
from trainyard.controller.policies import Policies, told
from trainyard.controller.resources import (
    CONFIG_MAPS,
    COSCHEDULING_POD_GROUPS,
    FIELD_MANAGER,
    JOB_SETS,
    POD_GROUPS,
    TRAIN_JOBS,
)
from trainyard.controller.snapshots import create_snapshot, stored_runtime
from trainyard.controller.view import ClusterView, runtime_reference
from trainyard.kube import ApiError, Client, EventRecorder, Key, Object, uid_of
from trainyard.policy.gate import unavailable
from trainyard.policy.judge import DecisionUnavailableError
from trainyard.problem import Problem, TrainyardError
from trainyard.render import Rejected, RenderContext, Rendered, key_kind, render, snapshot_name

__all__ = ["Outcome", "Reconciler"]

_MESSAGE_LIMIT = 950
_OCCUPIED_SECONDS = 10.0
_RUNTIME_KINDS = (TRAINING_RUNTIME, CLUSTER_TRAINING_RUNTIME)


@dataclass(frozen=True)
class Outcome:
    """What is to happen with the TrainJob next.

    Parameters
    ----------
    after
        Seconds after which to look again; None: when something changes.
    blocked
        Whether nothing was made because of something outside the TrainJob: look again when a runtime, tenant policy or
        priority class changes.
    writes
        What was written, for the log.
    """

    after: float | None = None
    blocked: bool = False
    writes: tuple[str, ...] = ()


class Reconciler:
    """Brings TrainJobs about.

    Parameters
    ----------
    client
        Fenced API client.
    view
        The informers.
    events
        Where people are told.
    policies
        Judges what is about to be made; None where policies are off.
    clock
        Wall clock (UTC).
    """

    def __init__(
        self,
        client: Client,
        view: ClusterView,
        events: EventRecorder,
        *,
        policies: Policies | None = None,
        clock: Callable[[], datetime.datetime] = lambda: datetime.datetime.now(datetime.UTC),
    ) -> None:
        self._client = client
        self._view = view
        self._events = events
        self._policies = policies
        self._clock = clock
        self._children = Children(client, view)
        self._attachments = Attachments(client)

    async def reconcile(self, key: Key) -> Outcome:
        """Take one TrainJob as far as it can go now.

        Raises
        ------
        ApiError, TransportError
            If the API server refused or did not answer; try again later.
        DecisionUnavailableError
            If the policy server gave no decision, and so nothing was made; try again later.
        FencedError
            If this process no longer leads.
        """
        train_job = self._view.train_jobs.store.get(*key)
        if train_job is None or train_job["metadata"].get("deletionTimestamp"):
            if train_job is not None:
                self._children.forget(train_job)
            return Outcome()
        managed_by = (train_job.get("spec") or {}).get("managedBy") or MANAGED_BY_TRAINER
        if managed_by != MANAGED_BY_TRAINER:
            return Outcome()
        step = _Step(train_job)
        try:
            return await self._advance(step)
        except DecisionUnavailableError as error:
            self._tell(train_job, (unavailable(error),))
            raise
        except TrainyardError as error:
            self._tell(train_job, error.problems or (Problem("", error.message, error.fix),))
            after = _OCCUPIED_SECONDS if isinstance(error, OccupiedError) else None
            return step.outcome(after=after, blocked=True)
        except ApiError as error:
            if error.status in (400, 403, 422):
                self._tell(train_job, (Problem("", error.message),))
            raise

    async def _advance(self, step: _Step) -> Outcome:
        job = step.train_job
        now = self._clock()
        group, kind, _ = runtime_reference(job)
        if group != GROUP or kind not in _RUNTIME_KINDS:
            if not statuses.finished(job):
                status = statuses.runtime_not_supported(job.get("status") or {}, f"{kind}.{group}", now=now)
                await self._write_status(step, status)
            return step.outcome()
        job_set = self._job_set(job)
        status = statuses.status_of(job, job_set, now=now)
        due = statuses.deadline(job, status)
        if due is not None and now >= due:
            status = statuses.deadline_exceeded(status, now=now)
        view = {"status": status}
        if not statuses.finished(view):
            rejected = await self._build(step, job_set)
            if rejected:
                self._tell(job, rejected.problems, rejected.reason)
            job_set = self._children.owned(JOB_SETS, job)
            status = statuses.status_of(job, job_set, now=now)
            await self._write_status(step, status)
            after = max(1.0, (due - now).total_seconds()) if due is not None else None
            return step.outcome(after=after, blocked=bool(rejected))
        await self._write_status(step, status)
        if statuses.overdue(view) and job_set is not None and not job_set["metadata"].get("deletionTimestamp"):
            await self._children.delete(JOB_SETS, job_set)
            step.writes.append("delete JobSet")
        self._children.forget(job)
        return step.outcome()

    async def _build(self, step: _Step, job_set: Object | None) -> _Refusal | None:
        """Make what is missing; return why it cannot be made."""
        job = step.train_job
        memory = self._children.memory(job)
        pod_group = self._children.owned(POD_GROUPS, job) or self._children.owned(COSCHEDULING_POD_GROUPS, job)
        suspended = bool((job.get("spec") or {}).get("suspend")) or bool(job_set and job_set["spec"]["suspend"])
        if job_set is not None and not suspended and (pod_group is not None or not job_set["spec"]["gang"]):
            return None
        context = self._view.context(job)
        if memory.built == _inputs(context, job, job_set, pod_group):
            return None
        parsed = parse(TrainJob, job)
        runtime, kept = await self._runtime(parsed, job, first=job_set is None)
        if runtime is None:
            _, kind, name = runtime_reference(job)
            where = f" in namespace {job['metadata']['namespace']}" if kind == TRAINING_RUNTIME else ""
            missing = f"{kind} {name!r} does not exist{where}"
            return _Refusal((Problem("spec.runtimeRef", missing, "create it or name another"),))
        result = render(parsed, runtime, context)
        if isinstance(result, Rejected) and not kept:
            stored = await stored_runtime(self._client, parsed)
            if stored is not None:
                runtime, kept, result = stored, True, render(parsed, stored, context)
        if isinstance(result, Rejected):
            return _Refusal(result.errors)
        if denied := await self._denied(job, job_set, runtime, result):
            return denied
        if not kept:
            snapshot = next(body for body in result.objects if body["kind"] == CONFIG_MAPS.kind)
            if await create_snapshot(self._client, snapshot):
                step.writes.append("create ConfigMap")
            else:
                runtime = await stored_runtime(self._client, parsed)
                if runtime is None:
                    return _Refusal((Problem("", "the runtime snapshot was deleted while it was read"),))
                result = render(parsed, runtime, context)
                if isinstance(result, Rejected):
                    return _Refusal(result.errors)
                if denied := await self._denied(job, job_set, runtime, result):
                    return denied
        for body in result.objects:
            if body["kind"] in ATTACHED and body["metadata"]["name"] != snapshot_name(parsed.metadata.name):
                complete = functools.partial(_with_keys, body, parsed, runtime, context)
                if await self._attachments.put(job, body, first=job_set is None, complete=complete):
                    step.writes.append(f"put {body['kind']}")
            elif body["kind"] == POD_GROUPS.kind and (pod_group is None or suspended):
                pod_group = await self._apply(step, body, pod_group)
            elif body["kind"] == JOB_SETS.kind and (job_set is None or suspended):
                job_set = await self._apply(step, body, job_set)
        memory.built = _inputs(context, job, job_set, pod_group)
        return None

    async def _denied(self, job: Object, job_set: Object | None, runtime: Runtime, result: Rendered) -> _Refusal | None:
        """Return why policies forbid what is about to be made; a job that is there may always be held back."""
        if self._policies is None or (job_set is not None and (job.get("spec") or {}).get("suspend")):
            return None
        ruling = await self._policies.judge("CREATE", job, runtime=runtime, made=result.objects)
        return _Refusal(ruling.denials, POLICY_DENIED) if ruling.denials else None

    def _job_set(self, job: Object) -> Object | None:
        try:
            return self._children.owned(JOB_SETS, job)
        except TrainyardError:
            if statuses.finished(job):
                return None
            raise

    async def _runtime(self, parsed: TrainJob, job: Object, *, first: bool) -> tuple[Runtime | None, bool]:
        """Return the runtime to render with and whether it comes from the snapshot."""
        live = self._view.runtime(job)
        if first and live is not None:
            return live, False
        kept = await stored_runtime(self._client, parsed)
        if kept is not None:
            return kept, True
        return live if live is not None else await self._view.live_runtime(job), False

    async def _apply(self, step: _Step, body: Object, held: Object | None) -> Object:
        try:
            stored = await self._children.apply(step.train_job, body)
        except ApiError as error:
            if error.not_found:
                what = f"{body['kind']} of {body['apiVersion']} is not served"
                self._tell(step.train_job, (Problem("", what, "install its CustomResourceDefinition"),))
            raise
        if held is None or stored["metadata"]["resourceVersion"] != held["metadata"]["resourceVersion"]:
            step.writes.append(f"apply {body['kind']}")
        return stored

    async def _write_status(self, step: _Step, status: Object) -> None:
        job = step.train_job
        if status == (job.get("status") or {}):
            return
        metadata = job["metadata"]
        changed = {name: value for name, value in status.items() if value != (job.get("status") or {}).get(name)}
        patch = {
            "metadata": {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]},
            "status": changed,
        }
        stored = await self._client.merge_patch(
            TRAIN_JOBS,
            metadata["name"],
            patch,
            namespace=metadata["namespace"],
            subresource="status",
            field_manager=FIELD_MANAGER,
        )
        self._view.train_jobs.fold(stored)
        step.train_job = stored
        step.writes.append("patch status")

    def _tell(self, job: Object, problems: Iterable[Problem], reason: str = RESOURCES_CREATION_FAILED) -> None:
        text = "TrainJob resources reconciliation failed: " + "; ".join(told(problem) for problem in problems)
        self._events.warning(job, reason, text[:_MESSAGE_LIMIT])


@dataclass(frozen=True)
class _Refusal:
    """Why nothing was made, and the reason of the event that tells it."""

    problems: tuple[Problem, ...]
    reason: str = RESOURCES_CREATION_FAILED


class _Step:
    """One pass over one TrainJob."""

    def __init__(self, train_job: Object) -> None:
        self.train_job = train_job
        self.writes: list[str] = []

    def outcome(self, *, after: float | None = None, blocked: bool = False) -> Outcome:
        return Outcome(after=after, blocked=blocked, writes=tuple(self.writes))


def _with_keys(body: Object, train_job: TrainJob, runtime: Runtime, context: RenderContext) -> Object:
    """Return a Secret as it is rendered with new keys."""
    kind = key_kind(runtime)
    if kind is None:
        return body
    result = render(train_job, runtime, replace(context, keys=generate(kind)))
    objects = () if isinstance(result, Rejected) else result.objects
    return next(made for made in objects if (made["kind"], made["metadata"]) == (body["kind"], body["metadata"]))


def _inputs(context: RenderContext, *bodies: Object | None) -> tuple[object, ...]:
    """Return what the outcome of a build depends on: while it is unchanged there is nothing to build."""
    return (context, *(None if body is None else (uid_of(body), body["metadata"].get("generation")) for body in bodies))
