"""Recorder of usage (leader only): keeps the record of device-hours in ConfigMaps of the controller's namespace.

Every half a minute it writes the documents that changed, and then in the head until when the record is complete. A new
leader reads the newest documents and goes on with the pods that exist; the time in between is a gap. Each write
requires the version that this process read or wrote last, so of two writers one fails, and reads the record again.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from typing import Any

from trainyard.controller.cluster_cache import ClusterCache
from trainyard.controller.usage_observer import UsageObserver
from trainyard.errors import TrainyardError
from trainyard.insight.usage.account import Account, Span, Usage
from trainyard.insight.usage.levels import JobEvent, Line, QueueTenants, UsageGang
from trainyard.insight.usage.month_document import JOBS_KEY
from trainyard.insight.usage.month_usage import DAY, MonthUsage, month_of, month_span
from trainyard.insight.usage.record import (
    FORMER_FORMATS,
    HEAD,
    LABEL,
    Head,
    name_of,
    oldest_month,
    place_of,
    read_month,
)
from trainyard.insight.usage.resumption import resumed
from trainyard.insight.usage.usage_book import UsageBook
from trainyard.kube.api_errors import ApiError, FencedError, TransportError
from trainyard.kube.client import Client
from trainyard.kube.kinds import CONFIG_MAPS
from trainyard.kube.resource import Object

_LOG = logging.getLogger(__name__)
_FIELD_MANAGER = "trainyard-controller"
_INTERVAL_SECONDS = 30.0
_ALWAYS = Span(0, 2**40)
_JOB_DAYS = 30
"""Days that jobs are kept after the end of their month."""


class UsageRecorder:
    """Writes the record.

    Parameters
    ----------
    client
        Fenced API client.
    cache
        Shared informers; not started here.
    namespace
        Namespace of the record.
    interval
        Seconds between writes.
    clock
        Seconds since 1970.
    """

    def __init__(
        self,
        client: Client,
        cache: ClusterCache,
        *,
        namespace: str,
        interval: float = _INTERVAL_SECONDS,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._client, self._cache, self._namespace, self._interval = client, cache, namespace, interval
        self.observer = UsageObserver(client, cache, clock)
        self._lock = asyncio.Lock()
        self._account: Account | None = None
        self._head = Head(0, 0)
        self._book = UsageBook(0)
        self._versions: dict[str, str] = {}
        self._behind: int | None = None
        """Instant since which a document cannot be written."""
        self._relists = self._pruned = 0

    async def run(self) -> None:
        """Run until cancelled."""
        async with asyncio.TaskGroup() as group:
            for informer in self.observer.informers:
                group.create_task(informer.run())
            group.create_task(self._record())

    async def flush(self) -> None:
        """Write what changed.

        Raises
        ------
        ApiError, TransportError
            If a write failed; after a conflict or a deletion, the record is read again first.
        """
        async with self._lock:
            if self.observer.ledger is None or self.observer.relists != self._relists:
                await self._resume()
            try:
                await self._write()
            except ApiError as error:
                if error.conflict or error.not_found:
                    self.observer.ledger = None
                raise

    async def close(self) -> None:
        """Write what changed up to now, so that the next leader's gap is short; nothing before the first write.

        Raises
        ------
        ApiError, TransportError
            If a write failed.
        """
        if self.observer.ledger is not None:
            await self.flush()

    def totals(self) -> Usage | None:
        """Return the usage since this process began to lead, by namespace, queue and runtime; None before."""
        ledger = self.observer.ledger
        if ledger is None or self._account is None:
            return None
        now = self.observer.now
        ledger.advance(now)  # What was counted is never taken back: a counter does not decrease.
        self._drain()
        return self._account.usage(now)

    async def _record(self) -> None:
        shared = (self._cache.train_jobs, self._cache.platforms, self._cache.tenant_policies)
        informers = (*self.observer.informers, *shared)
        await asyncio.gather(*(informer.wait_settled() for informer in informers))
        while True:
            try:
                await self.flush()
            except (ApiError, TransportError, TrainyardError) as error:
                _LOG.warning("record of usage: %s; retrying", error)
            except FencedError:
                raise
            except Exception:
                # A defect of the record must not end the process, which also reconciles jobs.
                _LOG.exception("record of usage; retrying")
                self.observer.ledger = None
            await asyncio.sleep(self._interval)

    async def _resume(self) -> None:
        head = await self._client.find_confirmed(CONFIG_MAPS, HEAD, namespace=self._namespace)
        self._versions = {HEAD: head["metadata"]["resourceVersion"]} if head is not None else {}
        if head is None or (head.get("data") or {}).get("format") in FORMER_FORMATS:
            # Nothing says until when the documents are complete, or they have another form: the record begins again.
            record_head = Head(self.observer.now, self.observer.now)
            months, unreadable = list[MonthUsage](), list[str]()
            await self._delete_all()
        else:
            record_head = Head.of(head)
            months, unreadable = await self._newest()
        self._relists, self._account, self._behind, self._pruned = self.observer.relists, None, None, 0
        self.observer.earliest = until = record_head.until
        ledger = await self.observer.start()
        now = self.observer.now
        for month in months:
            month.settle(until)
        written = [level for month in months for level in month.levels()]
        lines = ledger.drain()
        ledger.advance(now)
        self._account = Account(_ALWAYS, by=_without_names)
        self._account.add(ledger.levels())
        self._head = record_head.resumed(now)
        for month_name in unreadable:
            self._head = self._head.without(max(self._head.since, month_span(month_name).start), now)
        self._book = UsageBook(until, months)
        self._add(list(resumed(written, lines, until)))

    async def _newest(self) -> tuple[list[MonthUsage], list[str]]:
        """Return the newest document of each tenant and of the queues, and the months of those that are unreadable."""
        newest = dict[str, str]()
        for metadata in await self._page():
            self._versions[metadata["name"]] = metadata["resourceVersion"]
            if (place := place_of(metadata)) is not None and place[1] >= oldest_month(self.observer.now):
                newest[place[0]] = max(newest.get(place[0], ""), place[1])
        months, unreadable = list[MonthUsage](), list[str]()
        for tenant, month_name in newest.items():
            name = name_of(tenant, month_name)
            body = await self._client.get(CONFIG_MAPS, name, namespace=self._namespace)
            self._versions[name] = body["metadata"]["resourceVersion"]
            month = await asyncio.to_thread(read_month, body)
            if month is not None:
                months.append(month)
            else:
                _LOG.warning("record of usage: ConfigMap %s is unreadable, and begins again", name)
                unreadable.append(month_name)
        return months, unreadable

    async def _delete_all(self) -> None:
        for metadata in await self._page():
            if metadata["name"].startswith(f"{HEAD}."):
                await self._delete(metadata)

    async def _delete(self, metadata: Mapping[str, Any]) -> None:
        name, version = metadata["name"], metadata["resourceVersion"]
        await self._client.delete(CONFIG_MAPS, name, namespace=self._namespace, resource_version=version)
        self._versions.pop(name, None)

    async def _page(self) -> list[Mapping[str, Any]]:
        page = await self._client.page(
            CONFIG_MAPS, namespace=self._namespace, label_selector=LABEL, limit=0, metadata_only=True
        )
        return [each["metadata"] for each in page.items]

    async def _write(self) -> None:
        now = self.observer.now
        self._drain()
        self._book.own(now, self.observer.owners())
        self._book.advance(now)
        changed, self._book.changed = self._book.changed, {}
        behind = False
        # The newest first: what runs is in a document at any time.
        for key, month in sorted(changed.items(), key=lambda item: item[0][1], reverse=True):
            try:
                await self._put(name_of(*key), key[1], month.data(now))
            except (ApiError, TransportError) as error:
                if not isinstance(error, ApiError) or error.conflict or error.not_found:
                    self._book.changed |= changed
                    raise
                self._book.changed[key] = month
                # The record of others goes on. Nothing is lost if a later write succeeds.
                _LOG.warning("record of usage: ConfigMap %s: %s; retrying", name_of(*key), error)
                behind = True
        if not behind:
            self._behind = None
        elif self._behind is None:
            self._behind = self._head.until
        head = Head(self._head.since, max(now, self._head.until), self._head.gaps)
        # The head names no tenant, because each tenant reads it.
        shown = head.without(self._behind, head.until) if self._behind is not None else head
        await self._put(HEAD, "head", shown.data())
        self._head = head
        if now // DAY != self._pruned:
            await self._prune(now)
            self._pruned = now // DAY

    async def _prune(self, now: int) -> None:
        """Delete the documents that are older than the record, and the jobs of a month that ended a month ago."""
        without_jobs = month_of(month_span(month_of(now - _JOB_DAYS * DAY)).start - 1)
        for metadata in await self._page():
            name, place = metadata["name"], place_of(metadata)
            if place is not None and place[1] < oldest_month(now):
                await self._delete(metadata)
            elif place is not None and place[1] == without_jobs:
                await self._put(name, place[1], {JOBS_KEY: None})

    async def _put(self, name: str, label: str, data: Mapping[str, str | None]) -> None:
        labels = {LABEL: label}
        if (version := self._versions.get(name)) is not None:
            stored = await self._client.merge_patch(
                CONFIG_MAPS,
                name,
                {"metadata": {"labels": labels}, "data": data},
                namespace=self._namespace,
                resource_version=version,
                field_manager=_FIELD_MANAGER,
            )
        else:
            metadata = {"name": name, "namespace": self._namespace, "labels": labels}
            body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
            try:
                stored = await self._client.create(CONFIG_MAPS, body, field_manager=_FIELD_MANAGER)
            except ApiError as error:
                if error.conflict:
                    await self._adopt(name)  # The record is then read again, with it.
                raise
        self._versions[name] = stored["metadata"]["resourceVersion"]

    async def _adopt(self, name: str) -> None:
        """Restore the label of a ConfigMap that has lost it; one that is no document is replaced."""
        body: Object | None = await self._client.find(CONFIG_MAPS, name, namespace=self._namespace)
        if body is None:
            return
        month = read_month(body)
        label = month.document.month if month is not None else "unknown"
        await self._client.merge_patch(
            CONFIG_MAPS,
            name,
            {"metadata": {"labels": {LABEL: label}}},
            namespace=self._namespace,
            resource_version=body["metadata"]["resourceVersion"],
            field_manager=_FIELD_MANAGER,
        )

    def _drain(self) -> None:
        ledger = self.observer.ledger
        if ledger is not None and self._account is not None:
            lines = ledger.drain()
            self._account.add(lines)
            self._add(lines)

    def _add(self, lines: list[Line]) -> None:
        events, self.observer.events = self.observer.events, []
        # What interrupts a job comes before the levels that follow from it.
        self._book.add(sorted([*events, *lines], key=_instant))


def _instant(line: Line | JobEvent) -> int:
    return 0 if isinstance(line, QueueTenants) else line.at


def _without_names(gang: UsageGang) -> UsageGang:
    """Return what metrics sum by: neither jobs nor runtimes whose names a tenant chooses."""
    namespace, own, _ = gang.runtime.rpartition("/")
    return UsageGang(gang.namespace, "", "", gang.queue, f"{namespace}/*" if own else gang.runtime)
