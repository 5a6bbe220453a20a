"""Adoption by a new leader: label the objects that TrainJobs own, then refresh the caches.

JobSets and PodGroups created by upstream's controller or an earlier version lack the label of the watch, including
running ones. Only the metadata of unlabeled objects is listed, so that objects of other owners are not cached.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator

from trainyard.controller.cluster_cache import ClusterCache
from trainyard.controller.job_ownership import TRAIN_JOB_LABEL, owner_train_job
from trainyard.controller.resources import FIELD_MANAGER
from trainyard.kube import ApiError, Backoff, Client, Informer, Object, Resource, TransportError, uid_of

__all__ = ["adopt"]

_LOG = logging.getLogger(__name__)
_PAGE = 500


async def adopt(client: Client, cache: ClusterCache, *, backoff: Backoff | None = None) -> None:
    """Label the children of TrainJobs, then relist; returns when the caches are complete.

    Objects whose patch is rejected are skipped: their TrainJob finds and labels them by name later.

    Parameters
    ----------
    client
        Fenced API client.
    cache
        Cluster cache.
    backoff
        Delays after failures.

    Raises
    ------
    FencedError
        If this process is no longer the leader.
    """
    backoff = backoff or Backoff(0.2, 30.0)
    for informer in cache.children:
        while True:
            try:
                await _label_all(client, informer)
                break
            except (ApiError, TransportError) as error:
                if isinstance(error, ApiError) and error.not_found:
                    break
                delay = backoff.next()
                _LOG.warning("adoption of %s: %s; retry in %.1f s", informer.resource, error, delay)
                await asyncio.sleep(delay)
    await asyncio.gather(*(informer.refresh() for informer in cache.owned))


async def _label_all(client: Client, informer: Informer) -> None:
    resource = informer.resource
    labeled = rejected = 0
    async for body in _unlabeled(client, resource):
        if await _label(client, informer, body):
            labeled += 1
        else:
            rejected += 1
    if labeled or rejected:
        _LOG.info("adoption of %s: %d labeled, %d rejected", resource, labeled, rejected)


async def _unlabeled(client: Client, resource: Resource) -> AsyncIterator[Object]:
    continues: str | None = None
    while True:
        page = await client.page(
            resource, label_selector=f"!{TRAIN_JOB_LABEL}", limit=_PAGE, continues=continues, metadata_only=True
        )
        for body in page.items:
            if owner_train_job(body) is not None and not body["metadata"].get("deletionTimestamp"):
                yield body
        continues = page.continues
        if not continues:
            return


async def _label(client: Client, informer: Informer, body: Object) -> bool:
    metadata = body["metadata"]
    owner = owner_train_job(body)
    name = str(owner.get("name")) if owner is not None else ""
    patch = {"metadata": {"uid": uid_of(body), "labels": {TRAIN_JOB_LABEL: name}}}
    try:
        stored = await client.merge_patch(
            informer.resource,
            metadata["name"],
            patch,
            namespace=metadata.get("namespace"),
            field_manager=FIELD_MANAGER,
        )
    except ApiError as error:
        if error.status in (429, 503, 504):
            raise
        _LOG.warning("adoption of %s %s: %s", informer.resource, metadata["name"], error)
        return False
    informer.record_write(stored)
    return True
