"""Telling people: core/v1 Events, repeated ones counted, and never in the way of the work."""

from __future__ import annotations

import asyncio
import datetime
import hashlib
import logging
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from trainyard.kube.client import Client
from trainyard.kube.errors import ApiError, FencedError, TransportError
from trainyard.kube.resource import Object, Resource, uid_of

__all__ = ["EVENTS", "EventRecorder"]

_LOG = logging.getLogger(__name__)
EVENTS = Resource("", "v1", "events", "Event")
_MESSAGE_LIMIT = 1024
_NEW_AFTER = datetime.timedelta(minutes=50)


@dataclass
class _Series:
    body: dict[str, Any]
    first: datetime.datetime
    count: int = 0
    written: int = 0


class EventRecorder:
    """Writes Events in the background.

    The same event about the same object is one Event with a count for as long as the API server keeps it (an hour).

    Parameters
    ----------
    client
        API client.
    component
        Who reports.
    host
        Process that reports.
    clock
        Wall clock (UTC).
    remembered
        Series kept in memory.
    """

    def __init__(
        self,
        client: Client,
        *,
        component: str,
        host: str = "",
        clock: Callable[[], datetime.datetime] = lambda: datetime.datetime.now(datetime.UTC),
        remembered: int = 4096,
    ) -> None:
        self._client = client
        self._component = component
        self._host = host
        self._clock = clock
        self._remembered = remembered
        self._series: OrderedDict[str, _Series] = OrderedDict()
        self._pending: dict[str, None] = {}
        self._work = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()

    def warning(self, about: Object, reason: str, message: str) -> None:
        """Record a Warning event about an object."""
        self._record("Warning", about, reason, message)

    def normal(self, about: Object, reason: str, message: str) -> None:
        """Record a Normal event about an object."""
        self._record("Normal", about, reason, message)

    async def flush(self) -> None:
        """Wait until everything recorded so far was written or given up."""
        await self._idle.wait()

    async def run(self) -> None:
        """Write events until cancelled."""
        while True:
            await self._work.wait()
            while self._pending:
                identity = next(iter(self._pending))
                del self._pending[identity]
                series = self._series.get(identity)
                if series is not None:
                    await self._write(series)
            self._work.clear()
            self._idle.set()

    def _record(self, kind: str, about: Object, reason: str, message: str) -> None:
        message = message if len(message) <= _MESSAGE_LIMIT else message[: _MESSAGE_LIMIT - 1] + "…"
        now = self._clock()
        identity = "\0".join((uid_of(about), about["kind"], about["metadata"]["name"], kind, reason, message))
        series = self._series.get(identity)
        if series is None or now - series.first >= _NEW_AFTER:
            series = self._series[identity] = self._begin(identity, kind, about, reason, message, now)
        self._series.move_to_end(identity)
        while len(self._series) > self._remembered:
            self._series.popitem(last=False)
        series.count += 1
        series.body["lastTimestamp"] = _stamp(now)
        self._pending[identity] = None
        self._idle.clear()
        self._work.set()

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
            "metadata": {"name": f"{metadata['name'][:200]}.{digest}", "namespace": namespace},
            "involvedObject": involved,
            "type": kind,
            "reason": reason,
            "message": message,
            "firstTimestamp": _stamp(now),
            "source": {"component": self._component, **({"host": self._host} if self._host else {})},
            "reportingComponent": self._component,
            "reportingInstance": self._host,
        }
        return _Series(body, now)

    async def _write(self, series: _Series) -> None:
        metadata = series.body["metadata"]
        count = series.count
        try:
            if series.written:
                patch = {"count": count, "lastTimestamp": series.body["lastTimestamp"]}
                try:
                    await self._client.merge_patch(EVENTS, metadata["name"], patch, namespace=metadata["namespace"])
                except ApiError as error:
                    if not error.not_found:
                        raise
                    await self._client.create(EVENTS, {**series.body, "count": count})
            else:
                await self._client.create(EVENTS, {**series.body, "count": count})
            series.written = count
        except (ApiError, TransportError, FencedError) as error:
            _LOG.warning("event %s about %s was not written: %s", series.body["reason"], metadata["name"], error)


def _stamp(now: datetime.datetime) -> str:
    return now.strftime("%Y-%m-%dT%H:%M:%SZ")
