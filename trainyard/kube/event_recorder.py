"""Event recorder: core/v1 Events, aggregated and written in the background.

Bursts are written completely, one object cannot flood the API server, and memory is bounded: pending writes are
separate from the series remembered for counting, and each object has a budget as in client-go.
"""

from __future__ import annotations

import asyncio
import datetime
import hashlib
import logging
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from trainyard.checks.printable_text import printable
from trainyard.kube.api_errors import ApiError, FencedError, TransportError
from trainyard.kube.backoff import Backoff
from trainyard.kube.client import Client
from trainyard.kube.resource import Object, Resource, uid_of

_LOG = logging.getLogger(__name__)
EVENTS = Resource("", "v1", "events", "Event")
_MESSAGE_LIMIT = 1024
_NEW_AFTER = datetime.timedelta(minutes=50)
_BURST = 25.0
_REFILL_SECONDS = 300.0
_ATTEMPTS = 12


@dataclass
class _Series:
    identity: str
    body: dict[str, Any]
    first: datetime.datetime
    count: int = 0
    written: int = 0
    attempts: int = 0
    writing: bool = False


@dataclass
class _Budget:
    left: float
    at: datetime.datetime


class EventRecorder:
    """Write Events in the background.

    Equal events about the same object are one Event with a count while the API server keeps it (an hour). An object
    has a budget of 25 writes, refilled by one every 5 minutes (client-go's spam filter); further events only increase
    the count.

    Parameters
    ----------
    client
        API client.
    component
        Reporting controller (``source.component``).
    host
        Reporting instance (``source.host``).
    clock
        Wall clock (UTC).
    remembered
        Maximum number of series and of budgets in memory.
    waiting
        Maximum number of pending events; further ones are dropped.
    writers
        Maximum number of concurrent writes.
    backoff
        Delays after failed writes; an event is dropped after 12 attempts.

    Attributes
    ----------
    dropped
        Events that were not written: rejected, failed 12 times, or over the pending limit.
    limited
        Events that were only counted because the budget of their object was exhausted.
    """

    def __init__(
        self,
        client: Client,
        *,
        component: str,
        host: str = "",
        clock: Callable[[], datetime.datetime] = lambda: datetime.datetime.now(datetime.UTC),
        remembered: int = 4096,
        waiting: int = 20_000,
        writers: int = 4,
        backoff: Backoff | None = None,
    ) -> None:
        self._client = client
        self._component = component
        self._host = host
        self._clock = clock
        self._remembered = remembered
        self._limit = waiting
        self._writers = writers
        self._backoff = backoff or Backoff(0.25, 10.0)
        self._series: OrderedDict[str, _Series] = OrderedDict()
        self._budgets: OrderedDict[str, _Budget] = OrderedDict()
        self._pending: OrderedDict[str, _Series] = OrderedDict()
        self._overflowing = False
        self._writing = 0
        self._work = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self.dropped = 0
        self.limited = 0

    def warning(self, about: Object, reason: str, message: str) -> None:
        """Record a Warning event about an object."""
        self._record("Warning", about, reason, message)

    def normal(self, about: Object, reason: str, message: str) -> None:
        """Record a Normal event about an object."""
        self._record("Normal", about, reason, message)

    async def flush(self) -> None:
        """Wait until all recorded events are written or dropped."""
        await self._idle.wait()

    async def run(self) -> None:
        """Write events until cancelled."""
        async with asyncio.TaskGroup() as group:
            for _ in range(self._writers):
                group.create_task(self._write_all())

    def _record(self, kind: str, about: Object, reason: str, message: str) -> None:
        message = printable(message)
        message = message if len(message) <= _MESSAGE_LIMIT else message[: _MESSAGE_LIMIT - 1] + "…"
        now = self._clock()
        identity = "\0".join((uid_of(about), about["kind"], about["metadata"]["name"], kind, reason, message))
        series = self._series.get(identity) or self._pending.get(identity)
        if series is None or (series.written and now - series.first >= _NEW_AFTER):
            series = self._begin(identity, kind, about, reason, message, now)
        self._series[identity] = series
        _keep_newest(self._series, identity, self._remembered)
        series.count += 1
        series.body["lastTimestamp"] = _stamp(now)
        if identity in self._pending:
            return
        if not self._allowed(about, now):
            self.limited += 1
            return
        if len(self._pending) >= self._limit:
            if not self._overflowing:
                _LOG.warning("too many pending events; further events are dropped")
            self._overflowing = True
            self.dropped += 1
            return
        self._overflowing = False
        self._enqueue(series)

    def _allowed(self, about: Object, now: datetime.datetime) -> bool:
        """Take one write from the budget of an object; return whether there was one."""
        metadata = about["metadata"]
        name = uid_of(about) or "\0".join((about["kind"], metadata.get("namespace") or "", metadata["name"]))
        budget = self._budgets.setdefault(name, _Budget(_BURST, now))
        _keep_newest(self._budgets, name, self._remembered)
        gained = (now - budget.at).total_seconds() / _REFILL_SECONDS
        budget.left, budget.at = min(_BURST, budget.left + max(0.0, gained)), now
        if budget.left < 1.0:
            return False
        budget.left -= 1.0
        return True

    def _enqueue(self, series: _Series) -> None:
        self._pending[series.identity] = series
        self._idle.clear()
        self._work.set()

    def _drop(self, series: _Series, why: object) -> None:
        self.dropped += 1
        _LOG.warning(
            "event %s about %s was not written: %s", series.body["reason"], series.body["metadata"]["name"], why
        )

    async def _write_all(self) -> None:
        while True:
            series = next((series for series in self._pending.values() if not series.writing), None)
            if series is None:
                self._work.clear()
                await self._work.wait()
                continue
            del self._pending[series.identity]
            series.writing = True
            self._writing += 1
            try:
                retry = await self._attempt(series)
            finally:
                series.writing = False
                self._writing -= 1
            if retry:
                self._enqueue(series)
            if not self._pending and not self._writing:
                self._idle.set()
            if retry:
                await asyncio.sleep(self._backoff.next())

    async def _attempt(self, series: _Series) -> bool:
        """Write an event; return whether to retry it."""
        try:
            await self._write(series)
        except (ApiError, TransportError) as error:
            series.attempts += 1
            transient = not isinstance(error, ApiError) or error.status >= 500 or error.status == 429
            if transient and series.attempts < _ATTEMPTS:
                return True
            self._drop(series, error)
        except FencedError as error:
            _LOG.warning("%d events were not written: %s", 1 + len(self._pending), error)
            self.dropped += 1 + len(self._pending)
            self._pending.clear()
        except Exception as error:
            self._drop(series, f"{type(error).__name__}: {error}")
        else:
            self._backoff.reset()
        series.attempts = 0
        return False

    async def _write(self, series: _Series) -> None:
        name, namespace = series.body["metadata"]["name"], series.body["metadata"]["namespace"]
        count = series.count
        created = {**series.body, "count": count}
        patch = {"count": count, "lastTimestamp": series.body["lastTimestamp"]}
        try:
            if series.written:
                await self._client.merge_patch(EVENTS, name, patch, namespace=namespace)
            else:
                await self._client.create(EVENTS, created)
        except ApiError as error:
            if series.written and error.not_found:
                await self._client.create(EVENTS, created)
            elif not series.written and error.conflict:
                await self._client.merge_patch(EVENTS, name, patch, namespace=namespace)
            else:
                raise
        series.written = count

    def _begin(
        self, identity: str, kind: str, about: Object, reason: str, message: str, now: datetime.datetime
    ) -> _Series:
        metadata = about["metadata"]
        namespace = metadata.get("namespace") or "default"
        digest = hashlib.sha256(f"{identity}{now.timestamp()}{self._host}".encode()).hexdigest()[:16]
        involved = {
            "apiVersion": about["apiVersion"],
            "kind": about["kind"],
            "name": metadata["name"],
            **{name: metadata[name] for name in ("namespace", "uid", "resourceVersion") if metadata.get(name)},
        }
        body: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": f"{metadata['name'][:200].rstrip('-.')}.{digest}", "namespace": namespace},
            "involvedObject": involved,
            "type": kind,
            "reason": reason,
            "message": message,
            "firstTimestamp": _stamp(now),
            "source": {"component": self._component, **({"host": self._host} if self._host else {})},
            "reportingComponent": self._component,
            "reportingInstance": self._host,
        }
        return _Series(identity, body, now)


def _keep_newest(remembered: OrderedDict[str, Any], name: str, limit: int) -> None:
    remembered.move_to_end(name)
    while len(remembered) > limit:
        remembered.popitem(last=False)


def _stamp(now: datetime.datetime) -> str:
    return now.strftime("%Y-%m-%dT%H:%M:%SZ")
