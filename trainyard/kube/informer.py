"""Informer: list, watch, resume, and list again when too much was missed."""

from __future__ import annotations

import asyncio
import copy
import logging
import random
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import aclosing

from trainyard.kube.backoff import Backoff
from trainyard.kube.client import Client
from trainyard.kube.errors import ApiError, TransportError, UnreadableEventError, WatchBrokenError
from trainyard.kube.resource import Key, Object, Resource, version_of
from trainyard.kube.store import Change, Index, Store

__all__ = ["Informer"]

_LOG = logging.getLogger(__name__)
Handler = Callable[[Change], None]
_TOO_LARGE = "Too large resource version"
_SHORT_SECONDS = 5.0
_CALM_SECONDS = 120.0


class Informer:
    """One list-and-watch loop; handlers run on the event loop and must not block.

    Parameters
    ----------
    client
        API client.
    resource
        What to watch. While it is not served (its CRD does not exist) the store is empty and the list is retried.
    namespace, label_selector, field_selector
        Restrict the watch.
    indexes, transform
        See `Store`.
    page_size
        Objects per page of a list.
    backoff
        Waiting after failures.
    missing_retry
        Longest wait, in seconds, for a resource that is not served yet.
    lasting, grace
        Returns the seconds one watch request is to last; seconds of silence after that, at which it counts as broken.
        Together they bound how long a silent connection stays unnoticed, see `Client.watch`.

    Attributes
    ----------
    relists
        Complete lists fetched, by reason.
    errors
        Unexpected exceptions; each is logged and followed by a new list.
    """

    def __init__(
        self,
        client: Client,
        resource: Resource,
        *,
        namespace: str | None = None,
        label_selector: str | None = None,
        field_selector: str | None = None,
        indexes: Mapping[str, Index] | None = None,
        transform: Callable[[Object], Object] | None = None,
        page_size: int = 500,
        backoff: Backoff | None = None,
        missing_retry: float = 2.0,
        lasting: Callable[[], int] = lambda: random.randint(30, 36),  # noqa: S311 - spreads load
        grace: float = 7.0,
    ) -> None:
        self.resource = resource
        self.store = Store(indexes, transform, name=str(resource))
        self.missing = False
        self.relists: Counter[str] = Counter()
        self.errors = 0
        self._client = client
        self._namespace = namespace
        self._label_selector = label_selector
        self._field_selector = field_selector
        self._page_size = page_size
        self._backoff = backoff or Backoff(0.8, 30.0)
        self._surprises = copy.copy(self._backoff)
        self._surprised_at = float("-inf")
        self._missing_retry = missing_retry
        self._lasting = lasting
        self._grace = grace
        self._handlers: list[Handler] = []
        self._lists = asyncio.Lock()
        self._synced = asyncio.Event()
        self._settled = asyncio.Event()

    @property
    def synced(self) -> bool:
        """Whether the store held a complete list at least once since the resource was last missing."""
        return self._synced.is_set()

    @property
    def settled(self) -> bool:
        """Whether it is known what there is: synced, or the resource is not served."""
        return self._settled.is_set()

    async def wait_synced(self) -> None:
        """Wait for the first complete list."""
        await self._synced.wait()

    async def wait_settled(self) -> None:
        """Wait until the store is complete or the resource is known not to be served."""
        await self._settled.wait()

    def subscribe(self, handler: Handler) -> None:
        """Call a handler with every change from now on."""
        self._handlers.append(handler)

    def fold(self, body: Object) -> None:
        """Take in the response of our own write: the next read sees it. Handlers are not told; the writer knows."""
        self.store.fold(body)

    async def refresh(self) -> None:
        """Fold what the API server holds now into the store, while the watch goes on; tried until it succeeds.

        A watch may lag by any time. This list names no resourceVersion, so the server answers it with a quorum read:
        afterwards the store holds everything that was written before the call, by whomever. A new leader awaits it
        before its first write.
        """
        backoff = copy.copy(self._backoff)
        backoff.reset()
        while True:
            try:
                self.relists["refresh"] += 1
                await self._list()
                return
            except ApiError as error:
                if error.not_found and self.missing:
                    return
                failure: Exception = error
            except Exception as error:
                failure = error
            delay = backoff.next()
            _LOG.warning("%s: not listed: %s; again in %.1f s", self.resource, failure, delay)
            await asyncio.sleep(delay)

    async def run(self) -> None:
        """List and watch until cancelled; no other exception ends it."""
        version: str | None = None
        reason = "start"
        while True:
            try:
                if version is None:
                    self.relists[reason] += 1
                    version = await self._list()
                version = await self._watch(version)
            except ApiError as error:
                version = self._resume(version)
                if error.expired or _TOO_LARGE in error.message:
                    version, reason = None, "expired"
                    if self._backoff.failures == 0:
                        self._backoff.failures = 1
                        continue
                elif error.not_found:
                    version, reason = None, "missing"
                    self._disappear()
                await self._pause(error, longest=self._missing_retry if error.not_found else None)
            except UnreadableEventError as error:
                version, reason = None, "unreadable"
                await self._surprise(error)
            except (TransportError, WatchBrokenError) as error:
                version = self._resume(version)
                await self._pause(error)
            except Exception as error:
                version, reason = None, "error"
                await self._surprise(error)

    async def _list(self) -> str:
        async with self._lists:
            with self.store.listing():
                return await self._fetch()

    async def _fetch(self) -> str:
        listed: set[Key] = set()
        continues: str | None = None
        limit = self._page_size
        told = self.store.observed
        while True:
            try:
                page = await self._client.page(
                    self.resource,
                    namespace=self._namespace,
                    label_selector=self._label_selector,
                    field_selector=self._field_selector,
                    limit=limit,
                    continues=continues,
                )
            except ApiError as error:
                if not (error.expired and continues):
                    raise
                listed, continues, limit = set(), None, 0
                continue
            version = int(page.resource_version)
            if version < told:
                self._reset()
                told = 0
            for body in page.items:
                listed |= self.store.keys_of(body)
                self._tell(self.store.put(body, initial=True))
            continues = page.continues
            if continues:
                await asyncio.sleep(0)
                continue
            for change in self.store.retain(listed, version):
                self._tell(change)
            self.store.observe(version)
            self.missing = False
            self._synced.set()
            self._settled.set()
            return page.resource_version

    async def _watch(self, version: str) -> str:
        stream = self._client.watch(
            self.resource,
            resource_version=version,
            namespace=self._namespace,
            label_selector=self._label_selector,
            field_selector=self._field_selector,
            lasting=self._lasting(),
            grace=self._grace,
        )
        started = time.monotonic()
        heard = False
        async with aclosing(stream):
            async for event in stream:
                body = event.object
                if event.kind in ("ADDED", "MODIFIED"):
                    self._tell(self.store.put(body))
                elif event.kind == "DELETED":
                    self._tell(self.store.remove(body))
                self.store.observe(version_of(body))
                if not heard:
                    heard = True
                    self._backoff.reset()
        if not heard and time.monotonic() - started < _SHORT_SECONDS:
            await asyncio.sleep(self._backoff.next())
        return str(max(int(version), self.store.observed))

    def _resume(self, version: str | None) -> str | None:
        return None if version is None else str(max(int(version), self.store.observed))

    async def _pause(self, error: Exception, *, longest: float | None = None) -> None:
        delay = self._backoff.next()
        if longest is not None:
            delay = min(delay, longest)
        _LOG.log(
            logging.DEBUG if self.missing else logging.WARNING, "%s: %s; again in %.1f s", self.resource, error, delay
        )
        await asyncio.sleep(delay)

    async def _surprise(self, error: Exception) -> None:
        """Wait after what should not happen: longer each time, however well it goes in between."""
        if time.monotonic() - self._surprised_at > _CALM_SECONDS:
            self._surprises.reset()
        self._surprised_at = time.monotonic()
        self.errors += 1
        delay = self._surprises.next()
        _LOG.error("%s: %s; listed again in %.1f s", self.resource, error, delay, exc_info=error)
        await asyncio.sleep(delay)

    def _disappear(self) -> None:
        self.missing = True
        self._synced.clear()
        self._settled.set()
        for change in self.store.clear():
            self._tell(change)

    def _reset(self) -> None:
        """Start over: the server's history is shorter than ours, so it was restored from a backup."""
        self.store.observed = 0
        for change in self.store.clear():
            self._tell(change)

    def _tell(self, change: Change | None) -> None:
        if change is None:
            return
        for handler in self._handlers:
            try:
                handler(change)
            except Exception:
                _LOG.exception("%s: a handler failed on %s", self.resource, "/".join(change.key))
