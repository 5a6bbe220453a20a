"""Informer: list, watch, resume, and relist when the resourceVersion has expired."""

from __future__ import annotations

import asyncio
import copy
import logging
import random
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import aclosing

from trainyard.kube.api_errors import ApiError, TransportError, UnreadableEventError, WatchBrokenError
from trainyard.kube.backoff import Backoff
from trainyard.kube.client import Client
from trainyard.kube.resource import Key, Object, Resource, version_of
from trainyard.kube.store import Index, Store, StoreChange

_LOG = logging.getLogger(__name__)
Handler = Callable[[StoreChange], None]
_TOO_LARGE = "Too large resource version"
_SHORT_WATCH_SECONDS = 5.0
_UNEXPECTED_RESET_SECONDS = 120.0
_RELIST_SECONDS = 5.0
"""Seconds between two lists after an expired resourceVersion; the delays after failures apply to earlier ones."""
_LONGEST_START_SECONDS = 2.0
"""Longest delay before the first list: a process that has just started serves no webhook until then."""


class Informer:
    """List-and-watch loop of one resource; handlers run on the event loop and must not block.

    Parameters
    ----------
    client
        API client.
    resource
        Resource to watch. While it is not served (no CRD), the store is empty and the list is retried.
    namespace, label_selector, field_selector
        Restrict the watch.
    indexes, transform
        See `Store`.
    page_size
        Objects per page of a list.
    backoff
        Delays after failures.
    missing_retry
        Longest delay, in seconds, between lists of a resource that is not served yet.
    settle_after
        Seconds of `run` after which the informer counts as settled although lists fail: nothing has to wait for an
        optional resource. None: never.
    timeout_seconds, grace
        Returns the timeout of one watch request; further seconds without data after which it is considered broken.
        Together they bound how long a dead connection stays undetected, see `Client.watch`.

    Attributes
    ----------
    relists
        Complete lists fetched, by reason.
    errors
        Unexpected exceptions; each is logged and followed by a relist.
    failure
        Newest error since the last list, event or complete watch; None: there was none, or the resource is not served.
    failing_since
        `time.monotonic` of the first of these errors.
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
        settle_after: float | None = None,
        timeout_seconds: Callable[[], int] = lambda: random.randint(30, 36),  # noqa: S311 - spreads load
        grace: float = 7.0,
    ) -> None:
        self.resource = resource
        self.store = Store(indexes, transform, name=str(resource))
        self.missing = False
        self.relists: Counter[str] = Counter()
        self.errors = 0
        self.failure: Exception | None = None
        self.failing_since = 0.0
        self._client = client
        self._namespace = namespace
        self._label_selector = label_selector
        self._field_selector = field_selector
        self._page_size = page_size
        self._backoff = backoff or Backoff(0.8, 30.0)
        self._unexpected_backoff = copy.copy(self._backoff)
        self._unexpected_at = float("-inf")
        self._expired_at = float("-inf")
        self._missing_retry = missing_retry
        self._settle_after = settle_after
        self._started_at = float("inf")
        self._timeout_seconds = timeout_seconds
        self._grace = grace
        self._handlers: list[Handler] = []
        self._lists = asyncio.Lock()
        self._synced = asyncio.Event()
        self._settled = asyncio.Event()

    @property
    def synced(self) -> bool:
        """Whether the store has held a complete list since the resource was last missing."""
        return self._synced.is_set()

    @property
    def settled(self) -> bool:
        """Whether the store is synced, the resource is known not to be served, or `settle_after` has passed."""
        return self._settled.is_set()

    async def wait_synced(self) -> None:
        """Wait for the first complete list."""
        await self._synced.wait()

    async def wait_settled(self) -> None:
        """Wait until `settled` is true."""
        await self._settled.wait()

    def subscribe(self, handler: Handler) -> None:
        """Call a handler for every subsequent change."""
        self._handlers.append(handler)

    def record_write(self, body: Object) -> None:
        """Store the response of a write of this process, so that it is read; handlers are not called."""
        self.store.record_write(body)

    async def refresh(self) -> None:
        """Relist into the store with a quorum read while the watch continues; retried until it succeeds.

        A watch may lag arbitrarily. This list has no resourceVersion, so the API server serves it with a quorum read:
        afterwards the store contains every write of any process before the call. A new leader awaits it before its
        first write.
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
            _LOG.warning("%s: list failed: %s; retry in %.1f s", self.resource, failure, delay)
            await asyncio.sleep(delay)

    async def run(self) -> None:
        """List and watch until cancelled; all other exceptions are logged and retried."""
        version: str | None = None
        reason = "start"
        self._started_at = time.monotonic()
        while True:
            try:
                if version is None:
                    self.relists[reason] += 1
                    version = await self._list()
                    self.failure = None
                version = await self._watch(version)
                self.failure = None
            except ApiError as error:
                version = self._resume(version)
                if error.expired or _TOO_LARGE in error.message:
                    version, reason = None, "expired"
                    again = time.monotonic() - self._expired_at < _RELIST_SECONDS
                    self._expired_at = time.monotonic()
                    if not again:
                        continue  # The server responds: the list need not wait for what failed before.
                    self._record(error)
                elif error.not_found:
                    version, reason = None, "missing"
                    self._mark_missing()
                else:
                    self._record(error)
                await self._back_off(error, longest=self._missing_retry if error.not_found else None)
            except UnreadableEventError as error:
                version, reason = None, "unreadable"
                await self._back_off_unexpected(error)
            except (TransportError, WatchBrokenError) as error:
                version = self._resume(version)
                self._record(error)
                await self._back_off(error)
            except Exception as error:
                version, reason = None, "error"
                await self._back_off_unexpected(error)

    async def _list(self) -> str:
        async with self._lists:
            with self.store.listing():
                return await self._fetch()

    async def _fetch(self) -> str:
        listed: set[Key] = set()
        continues: str | None = None
        limit = self._page_size
        observed = self.store.observed
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
            if version < observed:
                self._reset()
                observed = 0
            for body in page.items:
                listed |= self.store.keys_of(body)
                self._notify(self.store.put(body, initial=True))
            continues = page.continues
            if continues:
                await asyncio.sleep(0)
                continue
            for change in self.store.retain(listed, version):
                self._notify(change)
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
            timeout_seconds=self._timeout_seconds(),
            grace=self._grace,
        )
        started = time.monotonic()
        received = False
        async with aclosing(stream):
            async for event in stream:
                body = event.object
                if event.kind in ("ADDED", "MODIFIED"):
                    self._notify(self.store.put(body))
                elif event.kind == "DELETED":
                    self._notify(self.store.remove(body))
                self.store.observe(version_of(body))
                self.failure = None
                if not received:
                    received = True
                    self._backoff.reset()
        if not received and time.monotonic() - started < _SHORT_WATCH_SECONDS:
            await asyncio.sleep(self._backoff.next())
        return str(max(int(version), self.store.observed))

    def _record(self, error: Exception) -> None:
        if self.failure is None:
            self.failing_since = time.monotonic()
        self.failure = error
        if self._settle_after is not None and time.monotonic() - self._started_at >= self._settle_after:
            self._settled.set()

    def _resume(self, version: str | None) -> str | None:
        return None if version is None else str(max(int(version), self.store.observed))

    async def _back_off(self, error: Exception, *, longest: float | None = None) -> None:
        delay = self._backoff.next()
        if longest is None and not self.settled:
            longest = _LONGEST_START_SECONDS
        if longest is not None:
            delay = min(delay, longest)
        _LOG.log(
            logging.DEBUG if self.missing else logging.WARNING, "%s: %s; retry in %.1f s", self.resource, error, delay
        )
        await asyncio.sleep(delay)

    async def _back_off_unexpected(self, error: Exception) -> None:
        """Back off after an unexpected error; successful events in between do not reset the delay."""
        if time.monotonic() - self._unexpected_at > _UNEXPECTED_RESET_SECONDS:
            self._unexpected_backoff.reset()
        self._unexpected_at = time.monotonic()
        self.errors += 1
        self._record(error)
        delay = self._unexpected_backoff.next()
        _LOG.error("%s: %s; relist in %.1f s", self.resource, error, delay, exc_info=error)
        await asyncio.sleep(delay)

    def _mark_missing(self) -> None:
        self.missing = True
        self.failure = None
        self._synced.clear()
        self._settled.set()
        for change in self.store.clear():
            self._notify(change)

    def _reset(self) -> None:
        """Clear the store: the server's resourceVersion went back, so etcd was restored from a backup."""
        self.store.observed = 0
        for change in self.store.clear():
            self._notify(change)

    def _notify(self, change: StoreChange | None) -> None:
        if change is None:
            return
        for handler in self._handlers:
            try:
                handler(change)
            except Exception:
                _LOG.exception("%s: a handler failed on %s", self.resource, "/".join(change.key))
