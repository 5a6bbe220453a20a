"""Recorder of usage (leader only): keeps the record of device-hours in ConfigMaps of the controller's namespace.

Every half a minute it writes what changed, and in the head until when the record is complete. A new leader reads the
record and goes on with the pods that exist; the time in between is a gap. Each write requires the version that this
process read or wrote last, so of two writers one fails, and reads the record again.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import replace
from http import HTTPStatus
from typing import Any

from trainyard.controller.cluster_cache import ClusterCache
from trainyard.controller.usage_objects import seconds
from trainyard.controller.usage_observer import UsageObserver
from trainyard.errors import TrainyardError
from trainyard.insight.usage.account import Account, Span, Usage
from trainyard.insight.usage.levels import Level, Line, QueueTenants, TakenBack, UsageGang
from trainyard.insight.usage.record import newest, place_of, read_record
from trainyard.insight.usage.record_parts import (
    HEAD,
    LABEL,
    MAX_SEGMENTS,
    QUEUES,
    UNTIL,
    Head,
    Segment,
    TenantGaps,
    gaps_name,
)
from trainyard.insight.usage.resumption import resumed
from trainyard.kube.api_errors import ApiError, FencedError, TransportError
from trainyard.kube.client import Client
from trainyard.kube.collection_page import Listing
from trainyard.kube.kinds import CONFIG_MAPS

_LOG = logging.getLogger(__name__)
_FIELD_MANAGER = "trainyard-controller"
_INTERVAL_SECONDS = 30.0
_ALWAYS = Span(0, 2**40)


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
        self._segments: dict[str, Segment] = {}
        self._versions: dict[str, str] = {}
        self._pending: defaultdict[str, list[Line]] = defaultdict(list)
        self._unwritten: set[str] = set()
        self._owners: set[tuple[str, str]] = set()
        self._gaps: dict[str, TenantGaps] = {}
        self._unwritten_gaps: set[str] = set()
        self._lost: set[str] = set()
        self._written_at: dict[str, int] = {}
        self._relists = 0

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
        page = await self._page()
        if all(each["metadata"]["name"] != HEAD for each in page.items) and await self._adopt(HEAD):
            page = await self._page()
        bodies = [await self._client.get(CONFIG_MAPS, each, namespace=self._namespace) for each in newest(page.items)]
        begins = Head(self.observer.now, self.observer.now)
        record = await asyncio.to_thread(read_record, bodies, begins)
        assert record is not None  # noqa: S101 - it has a head
        written = await asyncio.to_thread(list, record.lines())
        stored = [each["metadata"] for each in (*page.items, *bodies)]
        self._versions = {each["name"]: each["resourceVersion"] for each in stored}
        self._written_at = {name: _written_at(each) for each in stored if _is_segment(name := each["name"])}
        self._segments, self._lost = {}, set()
        self._pending.clear()
        self._unwritten = set()
        for segment, body in record.segments:
            self._segments[segment.namespace] = Segment.of(body)
        self._owners = {
            (line.queue, tenant) for line in written if isinstance(line, QueueTenants) for tenant in line.tenants
        }
        self.observer.earliest = record.head.until
        self._relists, self._account = self.observer.relists, None
        ledger = await self.observer.start()
        now = self.observer.now
        for namespace, number in record.unreadable:
            _LOG.warning("record of usage: segment %d of %s is unreadable", number, namespace or "the queues")
            self._segments[namespace] = Segment(namespace, number + 1, now)
            self._unwritten.add(namespace)
        self._gaps = {namespace: each.closed(now) for namespace, each in record.tenant_gaps.items()}
        self._unwritten_gaps = {namespace for namespace, each in record.tenant_gaps.items() if each.behind is not None}
        lines = ledger.drain()
        ledger.advance(now)
        levels = ledger.levels()
        self._head = record.head.resumed(now)
        self._sort(await asyncio.to_thread(list, resumed(written, lines, record.head.until)))
        account = Account(_ALWAYS, by=_without_names)
        account.add(levels)
        self._account = account

    async def _page(self) -> Listing:
        return await self._client.page(
            CONFIG_MAPS, namespace=self._namespace, label_selector=LABEL, limit=0, metadata_only=True
        )

    async def _write(self) -> None:
        now = self.observer.now
        self._drain()
        owners = self.observer.owners()
        for queue, tenant in sorted(owners ^ self._owners):
            # Only the tenant reads its part: no tenant sees who else there is.
            self._pending[tenant].append(QueueTenants(queue, (tenant,) if (queue, tenant) in owners else ()))
        self._owners = owners
        for namespace, lines in self._pending.items():
            if lines:
                segment = self._segments.setdefault(namespace, Segment(namespace, 0, self._head.since))
                segment.append(lines)
                lines.clear()
                self._unwritten.add(namespace)
        for namespace in sorted(self._unwritten):
            try:
                await self._write_segment(namespace)
            except ApiError as error:
                if namespace == QUEUES or error.conflict or error.not_found:
                    raise
                self._fall_behind(namespace, error)
        for namespace in sorted(self._unwritten_gaps):
            await self._put(gaps_name(namespace), 0, {"data": self._gaps[namespace].data()})
            self._unwritten_gaps.discard(namespace)
        self._start_segments(now)
        surplus, since = self._surplus()
        # The head says first that the record begins later.
        head = Head(since, max(now, self._head.until), self._head.gaps)
        await self._put(HEAD, 0, {"data": head.data()})
        self._head = head
        for name in surplus:
            await self._delete(name)

    async def _write_segment(self, namespace: str) -> None:
        segment = self._segments[namespace]
        binary = await asyncio.to_thread(segment.binary_data)
        await self._put(segment.name, segment.sequence, {"data": segment.data(), "binaryData": binary})
        self._unwritten.discard(namespace)
        own = self._gaps.get(namespace)
        if own is not None and own.behind is not None:
            lost = namespace in self._lost
            self._gaps[namespace] = own.closed(segment.since) if lost else replace(own, behind=None)
            self._unwritten_gaps.add(namespace)
        self._lost.discard(namespace)

    def _fall_behind(self, namespace: str, error: ApiError) -> None:
        """Let the record of all others go on; what is too large is given up, except for the present levels."""
        own = self._gaps.get(namespace, TenantGaps())
        if own.behind is None:
            _LOG.warning("record of usage of namespace %s: %s; retrying", namespace, error)
            self._gaps[namespace] = replace(own, behind=self._head.until)
            self._unwritten_gaps.add(namespace)
        if error.too_large or error.status == HTTPStatus.UNPROCESSABLE_ENTITY:
            now, segment = self.observer.now, self._segments[namespace]
            sequence = segment.sequence + (namespace not in self._lost)
            self._pending.pop(namespace, None)
            self._segments[namespace] = following = Segment(namespace, sequence, now)
            following.append(self._levels(now)[namespace])
            self._pending.pop(namespace, None)
            self._lost.add(namespace)

    def _levels(self, now: int) -> Mapping[str, list[Line]]:
        """Return the present levels by part of the record."""
        assert self.observer.ledger is not None  # noqa: S101
        self._drain()
        self.observer.ledger.advance(now)
        levels = defaultdict[str, list[Line]](list)
        for line in self.observer.ledger.levels():
            levels[_scope(line)].append(line)
        for queue, tenant in sorted(self._owners):
            levels[tenant].append(QueueTenants(queue, (tenant,)))
        return levels

    def _start_segments(self, now: int) -> None:
        """Follow each full segment by one with the present levels; the next lines write it."""
        full = {namespace: each for namespace, each in self._segments.items() if each.full}
        if not full or self.observer.ledger is None:
            return
        levels = self._levels(now)
        for namespace, segment in full.items():
            # These lines came after the last write: the next segment begins with what they led to.
            late = self._pending.pop(namespace, [])
            following = Segment(namespace, segment.sequence + 1, now)
            following.append([*late, *levels[namespace]])
            self._segments[namespace] = following

    def _surplus(self) -> tuple[list[str], int]:
        """Return the segments beyond `MAX_SEGMENTS` that were written longest ago, and the start of the record then.

        The newest segment of the queues, and of each tenant that exists or has jobs, stays.
        """
        surplus, since = len(self._written_at) - MAX_SEGMENTS, self._head.since
        if surplus <= 0 or self.observer.ledger is None:
            return [], since
        self._drain()
        kept = {_scope(line) for line in self.observer.ledger.levels()} | {tenant for _, tenant in self._owners}
        kept |= {QUEUES, *(namespace for namespace, lines in self._pending.items() if lines)}
        newest_ones = {max(names, key=self._age) for names in self._stored().values()}
        candidates = [name for name in self._written_at if name not in newest_ones or _namespace_of(name) not in kept]
        dropped = sorted(candidates, key=self._age)[:surplus]
        # Before it, nothing says any more what a namespace had whose last segment is gone.
        return dropped, max([since, *(self._written_at[name] for name in dropped if name in newest_ones)])

    def _stored(self) -> Mapping[str, list[str]]:
        """Return the names of the stored segments by namespace."""
        found = defaultdict[str, list[str]](list)
        for name in self._written_at:
            found[_namespace_of(name)].append(name)
        return found

    def _age(self, name: str) -> tuple[int, str]:
        return self._written_at[name], name

    async def _delete(self, name: str) -> None:
        namespace = _namespace_of(name)
        del self._written_at[name]
        names = [name]
        if namespace not in self._stored():
            self._segments.pop(namespace, None)
            self._gaps.pop(namespace, None)
            names.append(gaps_name(namespace))
        for each in names:
            version = self._versions.pop(each, None)
            if version is not None:
                await self._client.delete(CONFIG_MAPS, each, namespace=self._namespace, resource_version=version)

    async def _put(self, name: str, sequence: int, content: Mapping[str, Any]) -> None:
        now = self.observer.now
        labels = {LABEL: str(sequence), UNTIL: str(now)}
        if (version := self._versions.get(name)) is not None:
            stored = await self._client.merge_patch(
                CONFIG_MAPS,
                name,
                {"metadata": {"labels": labels}, **content},
                namespace=self._namespace,
                resource_version=version,
                field_manager=_FIELD_MANAGER,
            )
        else:
            metadata = {"name": name, "namespace": self._namespace, "labels": labels}
            body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, **content}
            try:
                stored = await self._client.create(CONFIG_MAPS, body, field_manager=_FIELD_MANAGER)
            except ApiError as error:
                if error.conflict:
                    await self._adopt(name)  # The record is then read again, with it.
                raise
        self._versions[name] = stored["metadata"]["resourceVersion"]
        if _is_segment(name):
            self._written_at[name] = now

    async def _adopt(self, name: str) -> bool:
        """Restore the label of a ConfigMap that has lost it, and return whether it exists."""
        body = await self._client.find(CONFIG_MAPS, name, namespace=self._namespace)
        if body is None:
            return False
        sequence = str((body.get("data") or {}).get("sequence"))
        label = sequence if sequence.isascii() and sequence.isdecimal() else "0"
        await self._client.merge_patch(
            CONFIG_MAPS,
            name,
            {"metadata": {"labels": {LABEL: label}}},
            namespace=self._namespace,
            resource_version=body["metadata"]["resourceVersion"],
            field_manager=_FIELD_MANAGER,
        )
        return True

    def _drain(self) -> None:
        ledger = self.observer.ledger
        if ledger is not None and self._account is not None:
            lines = ledger.drain()
            self._account.add(lines)
            self._sort(lines)

    def _sort(self, lines: Any) -> None:
        for line in lines:
            self._pending[_scope(line)].append(line)


def _namespace_of(name: str) -> str:
    return (place_of(name) or (QUEUES, ""))[0]


def _is_segment(name: str) -> bool:
    place = place_of(name)
    return place is not None and place[1].isdecimal()


def _written_at(metadata: Mapping[str, Any]) -> int:
    """Return when a ConfigMap was written last; of one without the label, when it was created."""
    label = str((metadata.get("labels") or {}).get(UNTIL))
    if label.isascii() and label.isdecimal():
        return int(label)
    return seconds(metadata.get("creationTimestamp"))


def _without_names(gang: UsageGang) -> UsageGang:
    """Return what metrics sum by: neither jobs nor runtimes whose names a tenant chooses."""
    namespace, own, _ = gang.runtime.rpartition("/")
    return UsageGang(gang.namespace, "", "", gang.queue, f"{namespace}/*" if own else gang.runtime)


def _scope(line: Line) -> str:
    return line.gang.namespace if isinstance(line, Level | TakenBack) else QUEUES
