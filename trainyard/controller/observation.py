"""Observe one TrainJob: its objects from the caches and, where these may be outdated, from the API server."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from trainyard.api import Runtime, TrainJob, parse
from trainyard.api.constants import TRAINING_RUNTIME
from trainyard.checks.finding import Finding
from trainyard.controller import status as statuses
from trainyard.controller.actions import Inputs
from trainyard.controller.cluster_cache import ClusterCache
from trainyard.controller.job_ownership import TRAIN_JOB_LABEL, owns
from trainyard.controller.job_sets import summary
from trainyard.controller.lifecycle import ObservedJob, RenderPurpose
from trainyard.controller.snapshots import stored_runtime
from trainyard.errors import TrainyardError
from trainyard.kube.client import Client
from trainyard.kube.resource import Object, Resource, uid_of
from trainyard.kube.training_kinds import JOB_SETS


@dataclass
class ReconcileAttempt:
    """State of one reconciliation.

    Parameters
    ----------
    train_job
        The TrainJob as stored.
    found
        Summary of its JobSet as read from the API server, for when the cache lacks it.
    found_pod_groups
        Likewise its PodGroups.
    stored
        Its JobSet, complete, as read from the API server.
    confirmed_absent
        Whether the API server has no such JobSet.
    use_snapshot
        Whether rendering must use the snapshot.
    writes
        Writes, for the log.
    blocked
        Reason and message why the JobSet could not be created.
    """

    train_job: Object
    found: Object | None = None
    found_pod_groups: tuple[tuple[Resource, Object], ...] = ()
    stored: Object | None = None
    confirmed_absent: bool = False
    use_snapshot: bool = False
    writes: list[str] = field(default_factory=list)
    blocked: tuple[str, str] | None = None


class Observer:
    """Observes TrainJobs.

    Parameters
    ----------
    client
        API client.
    cache
        Cluster cache.
    clock
        Wall clock (UTC).
    """

    def __init__(self, client: Client, cache: ClusterCache, clock: Callable[[], datetime.datetime]) -> None:
        self._client = client
        self._cache = cache
        self._clock = clock

    def observe(
        self, attempt: ReconcileAttempt, inputs: Inputs | None = None, *, record_supported: bool, created: str | None
    ) -> ObservedJob:
        """Return the observed state; the parameters are those of `ObservedJob`."""
        job = attempt.train_job
        job_set = self._cache.job_set(job) or attempt.found
        same = attempt.stored is not None and job_set is not None and uid_of(attempt.stored) == uid_of(job_set)
        return ObservedJob(
            train_job=job,
            now=self._clock(),
            job_set=job_set,
            stored=attempt.stored if same else None,
            confirmed_absent=attempt.confirmed_absent,
            pod_groups=self._cache.pod_groups_of(job) or attempt.found_pod_groups,
            inputs=inputs,
            record_supported=record_supported,
            created=created,
            blocked=attempt.blocked,
        )

    async def confirm(self, attempt: ReconcileAttempt) -> None:
        """Read the recorded JobSet: a missing label or a stale watch may hide it from the cache."""
        stored = await self._owned_job_set(attempt)
        if stored is not None:
            attempt.found, attempt.stored = summary(stored), stored
        else:
            attempt.confirmed_absent = True

    async def read_job_set(self, attempt: ReconcileAttempt) -> None:
        """Read the JobSet, so that the cache is as current: the watch may not have reported yet that it ended."""
        stored = await self._owned_job_set(attempt)
        if stored is not None:
            self._cache.record_write(stored)
            attempt.stored = stored
            if TRAIN_JOB_LABEL not in (stored["metadata"].get("labels") or {}):
                attempt.found = summary(stored)

    async def search(self, attempt: ReconcileAttempt, observed: ObservedJob) -> None:
        """Read the objects that the cache lacks by their names: without the label of the watch, they are not cached."""
        if observed.job_set is None and not attempt.confirmed_absent:
            await self.confirm(attempt)
        if not observed.pod_groups:
            metadata = attempt.train_job["metadata"]
            found: list[tuple[Resource, Object]] = []
            for informer in self._cache.readable_pod_groups:
                if informer.missing:
                    continue
                resource = informer.resource
                body = await self._client.find_confirmed(
                    resource, metadata["name"], namespace=metadata["namespace"], metadata_only=True
                )
                if body is not None and owns(attempt.train_job, body):
                    found.append((resource, body))
            attempt.found_pod_groups = tuple(found)

    async def inputs(self, attempt: ReconcileAttempt, build: RenderPurpose) -> Inputs:
        """Return the inputs of rendering, or the user's errors in ``findings``.

        A live runtime that does not match its schema matters only to a TrainJob without a snapshot.
        """
        job = attempt.train_job
        try:
            parsed, context = parse(TrainJob, job), self._cache.context(job)
        except TrainyardError as error:
            return Inputs(findings=error.as_findings())
        live: Runtime | None = None
        invalid: tuple[Finding, ...] = ()
        try:
            live = self._cache.runtime(job)
        except TrainyardError as error:
            invalid = error.as_findings()
        first = build is RenderPurpose.CREATE and not attempt.use_snapshot and statuses.pending_recreation(job) is None
        if not first or live is None:
            snapshot = await stored_runtime(self._client, parsed)
            if snapshot is not None:
                context = replace(context, from_snapshot=True, stored_runtime=live)
                return Inputs(parsed, snapshot, from_snapshot=True, context=context)
        if invalid:
            return Inputs(findings=invalid)
        runtime = live if live is not None else await self._cache.find_runtime(job)
        if runtime is not None:
            return Inputs(parsed, runtime, context=context)
        _, kind, name = statuses.runtime_reference(job)
        where = f" in namespace {job['metadata']['namespace']}" if kind == TRAINING_RUNTIME else ""
        missing = f"{kind} {name!r} does not exist{where}"
        return Inputs(findings=(Finding("spec.runtimeRef", missing, "create it or name another"),))

    async def _owned_job_set(self, attempt: ReconcileAttempt) -> Object | None:
        """Return the JobSet of the TrainJob, or None if the API server says that it is gone; the cache is not asked."""
        metadata = attempt.train_job["metadata"]
        stored = await self._client.find_confirmed(JOB_SETS, metadata["name"], namespace=metadata["namespace"])
        return stored if stored is not None and owns(attempt.train_job, stored) else None
