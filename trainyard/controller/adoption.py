"""Adoption by a new leader: label the objects that TrainJobs own, then refresh the caches.

JobSets and PodGroups created by upstream's controller or an earlier version lack the label of the watch, including
running ones. Only the metadata of unlabeled objects is listed, so that objects of other owners are not cached.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator

from trainyard.controller.cluster_cache import ClusterCache
from trainyard.controller.job_ownership import TRAIN_JOB_LABEL, owner_train_job
from trainyard.controller.resources import FIELD_MANAGER
from trainyard.kube.api_errors import ApiError, TransportError
from trainyard.kube.backoff import Backoff
from trainyard.kube.client import Client
from trainyard.kube.informer import Informer
from trainyard.kube.resource import Key, Object, Resource, uid_of

_LOG = logging.getLogger(__name__)
_PAGE = 500
_LABEL_SECONDS = 60.0
_OPTIONAL_SECONDS = 10.0
"""Seconds after which an optional resource whose lists fail is skipped."""
_OPTIONAL_REFRESH_SECONDS = 60.0
"""Seconds for the relist of an optional resource; a long one may be large."""
PARALLEL = 32
"""Patches at a time: half of the client's requests."""


async def adopt(
    client: Client, cache: ClusterCache, *, backoff: Backoff | None = None, label_seconds: float = _LABEL_SECONDS
) -> frozenset[Key]:
    """Label the children of TrainJobs, then relist; returns when the caches are complete.

    An object whose patch is rejected, even temporarily, or not answered is skipped, so that it does not delay the
    others: the caches lack it. A TrainJob that has not finished reads its JobSet by name and labels it. A finished one
    does not, so its key is returned: the objects to delete have to be looked for by name (`Reconciler.search_by_name`).
    An optional resource whose lists fail is skipped, so that it delays nothing; the next leader labels its objects.

    Parameters
    ----------
    client
        Fenced API client.
    cache
        Cluster cache.
    backoff
        Delays after failures.
    label_seconds
        Seconds for the labels of one resource. Later objects are skipped: a webhook may be slow.

    Returns
    -------
    keys
        Namespace and name of each cached TrainJob that owns an object without the label.

    Raises
    ------
    FencedError
        If this process is no longer the leader.
    """
    backoff = backoff or Backoff(0.2, 30.0)
    skipped: set[Key] = set()
    refreshed = list(cache.owned)
    for informer in cache.children:
        optional = informer in cache.optional
        gives_up_at = time.monotonic() + (_OPTIONAL_SECONDS if informer.failure is None else 0.0)
        while True:
            try:
                ends_at = time.monotonic() + label_seconds
                skipped |= await _label_all(client, informer, ends_at, _OPTIONAL_SECONDS if optional else None)
                break
            except (ApiError, TransportError, TimeoutError) as error:
                if isinstance(error, ApiError) and error.not_found:
                    break
                failure = str(error) or "timed out"
                if optional and time.monotonic() >= gives_up_at:
                    _LOG.warning("adoption of %s: %s; skipped, as the resource is optional", informer.resource, failure)
                    refreshed.remove(informer)
                    break
                delay = backoff.next()
                _LOG.warning("adoption of %s: %s; retry in %.1f s", informer.resource, failure, delay)
                await asyncio.sleep(delay)
    await asyncio.gather(*(_refresh(informer, optional=informer in cache.optional) for informer in refreshed))
    return frozenset(key for key in skipped if cache.train_jobs.store.get(*key) is not None)


async def _refresh(informer: Informer, *, optional: bool) -> None:
    try:
        async with asyncio.timeout(_OPTIONAL_REFRESH_SECONDS if optional else None):
            await informer.refresh()
    except TimeoutError:
        _LOG.warning("adoption of %s: not listed again within %g s", informer.resource, _OPTIONAL_REFRESH_SECONDS)


async def _label_all(client: Client, informer: Informer, ends_at: float, page_seconds: float | None) -> set[Key]:
    """Label the unlabeled objects of a resource; return the keys of the TrainJobs whose objects were skipped.

    Once none of several patches is answered, a webhook hangs: no further ones are sent.
    """
    total, hangs = 0, False
    skipped: set[Key] = set()
    async for bodies in _unlabeled(client, informer.resource, page_seconds):
        total += len(bodies)
        for start in range(0, len(bodies), PARALLEL):
            batch = bodies[start : start + PARALLEL]
            if hangs or time.monotonic() >= ends_at:
                skipped.update(map(_owner_key, batch))
                continue
            results = await asyncio.gather(*(_label(client, informer, body) for body in batch), return_exceptions=True)
            for body, result in zip(batch, results, strict=True):
                if isinstance(result, BaseException) and not isinstance(result, TransportError):
                    raise result
                if result is not True:
                    skipped.add(_owner_key(body))
            hangs = all(isinstance(result, TransportError) for result in results)
    if total:
        _LOG.info("adoption of %s: %d without the label, %d skipped", informer.resource, total, len(skipped))
    return skipped


async def _unlabeled(client: Client, resource: Resource, page_seconds: float | None) -> AsyncIterator[list[Object]]:
    continues: str | None = None
    while True:
        async with asyncio.timeout(page_seconds):
            page = await client.page(
                resource, label_selector=f"!{TRAIN_JOB_LABEL}", limit=_PAGE, continues=continues, metadata_only=True
            )
        yield [
            body
            for body in page.items
            if owner_train_job(body) is not None and not body["metadata"].get("deletionTimestamp")
        ]
        continues = page.continues
        if not continues:
            return


async def _label(client: Client, informer: Informer, body: Object) -> bool:
    """Label an object; return whether it was not rejected."""
    metadata = body["metadata"]
    _, name = _owner_key(body)
    patch = {"metadata": {"uid": uid_of(body), "labels": {TRAIN_JOB_LABEL: name}}}
    try:
        stored = await client.merge_patch(
            informer.resource,
            metadata["name"],
            patch,
            namespace=metadata.get("namespace"),
            field_manager=FIELD_MANAGER,
        )
    except (ApiError, TransportError) as error:
        _LOG.warning("adoption of %s %s: %s", informer.resource, metadata["name"], error)
        if isinstance(error, TransportError):
            raise
        return False
    if TRAIN_JOB_LABEL not in (stored["metadata"].get("labels") or {}):
        _LOG.warning("adoption of %s %s: the label was removed on admission", informer.resource, metadata["name"])
        return False
    informer.record_write(stored)
    return True


def _owner_key(body: Object) -> Key:
    """Return namespace and name of the TrainJob that owns an object."""
    owner = owner_train_job(body)
    return body["metadata"].get("namespace") or "", str(owner.get("name")) if owner is not None else ""
