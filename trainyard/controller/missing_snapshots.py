"""Snapshots of jobs that another controller started without one, as upstream's v2.0 to v2.2 do.

A job keeps the runtime that it had when this controller saw it first: without a snapshot, its next resume would render
the runtime as it was edited since.
"""

from __future__ import annotations

import logging

from trainyard.api import TrainJob, parse
from trainyard.controller.cluster_cache import ClusterCache
from trainyard.controller.job_sets import FROZEN_DIGEST
from trainyard.controller.lifecycle import ObservedJob, is_managed
from trainyard.controller.snapshots import create_snapshot
from trainyard.controller.status import finished
from trainyard.errors import TrainyardError
from trainyard.jobs.render.runtime_snapshot import snapshot
from trainyard.kube.api_errors import ApiError
from trainyard.kube.client import Client
from trainyard.kube.resource import Key, key_of, uid_of

_LOG = logging.getLogger(__name__)


class MissingSnapshots:
    """Creates missing snapshots, once by process and TrainJob.

    Parameters
    ----------
    client
        Fenced API client.
    cache
        Cluster cache.
    """

    def __init__(self, client: Client, cache: ClusterCache) -> None:
        self._client = client
        self._cache = cache
        self._done: dict[Key, str] = {}

    def forget(self, key: Key) -> None:
        """Drop the state of a deleted TrainJob."""
        self._done.pop(key, None)

    async def create(self, observed: ObservedJob) -> tuple[str, ...]:
        """Create the snapshot of a TrainJob whose JobSet another controller created; return the writes.

        Raises
        ------
        ApiError, TransportError
            If the API server failed or did not respond; retry.
        """
        job, job_set = observed.train_job, observed.job_set
        if not is_managed(job) or finished(job) or job_set is None or self._done.get(key_of(job)) == uid_of(job):
            return ()
        if FROZEN_DIGEST in (job_set["metadata"].get("annotations") or {}):
            return ()  # This controller created the snapshot before the JobSet.
        try:
            train_job = parse(TrainJob, job)
            runtime = self._cache.runtime(job) or await self._cache.find_runtime(job)
        except TrainyardError:
            return ()  # Its next resume reports the errors.
        if runtime is None:
            return ()
        try:
            created = await create_snapshot(self._client, snapshot(train_job, runtime))
        except ApiError as error:
            if error.status >= 500 or error.conflict or error.not_served:
                raise
            _LOG.warning("snapshot of TrainJob %s/%s: %s", *key_of(job), error.message)
            created = False
        self._done[key_of(job)] = uid_of(job)
        return ("create ConfigMap of a job without snapshot",) if created else ()
