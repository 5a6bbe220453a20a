"""State of a live cluster: one informer a kind for all viewers, without secrets, and only what the user may read."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, Final

from trainyard.console.views.platform_health import webhook_body
from trainyard.errors import TrainyardError
from trainyard.explain import Kind, Observed
from trainyard.explain.causes.controllers import DEPLOYMENTS as PLATFORM_DEPLOYMENTS
from trainyard.explain.causes.controllers import LEASES as PLATFORM_LEASES
from trainyard.explain.cluster_index import kind_of
from trainyard.explain.redaction import redacted
from trainyard.kube import ApiError, Client, Informer, Object, Resource, TransportError
from trainyard.kube.kinds import DEPLOYMENTS, MUTATING_WEBHOOKS, PODS, VALIDATING_WEBHOOKS
from trainyard.kube.leader import LEASES
from trainyard.kube.store import Change
from trainyard.live.cluster_snapshot import CLUSTER_KINDS, JOB_KINDS, MAX_EVENTS

__all__ = ["LOG_BYTES", "LOG_LINES", "LiveSource"]

LOG_LINES: Final = 200
LOG_BYTES: Final = 64 << 10
"""Bounds of the logs of one container."""
_LEASE_SECONDS: Final = 15.0
_MISSING_SECONDS: Final = 60.0
_WEBHOOKS: Final = (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS)
_HEARTBEATS: Final = ("lastHeartbeatTime",)


class LiveSource:
    """A live cluster.

    Parameters
    ----------
    client
        API client of the viewer.
    name
        Name of the cluster for the pages.
    namespace
        Namespace in which kinds are read that the viewer may not list in all.
    requests
        Returns the number of requests of the client so far.
    """

    def __init__(
        self, client: Client, name: str, namespace: str | None = None, requests: Callable[[], int] = lambda: 0
    ) -> None:
        self._client = client
        self.name = name
        self._namespace = namespace
        self._requests = requests
        self._informers: list[tuple[str, Informer]] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._leases: list[Object] = []
        self._unread: set[str] = set()
        self._dirty = asyncio.Event()
        self.fault = ""

    @property
    def requests(self) -> int:
        """Requests to the API server so far."""
        return self._requests()

    async def start(self) -> None:
        """Start the informers, and wait for their first lists."""
        namespaced = [(resource, kind) for resource, kind in (*JOB_KINDS, (PODS, Kind.POD))]
        kinds = [*namespaced, *CLUSTER_KINDS, *((each, f"{each.kind}.{each.group}") for each in _WEBHOOKS)]
        await asyncio.gather(*(self._add(resource, kind) for resource, kind in kinds), self._add_deployments())
        await self._read_leases()
        for _, informer in self._informers:
            informer.subscribe(self._on_change)
            self._tasks.append(asyncio.create_task(informer.run()))
        self._tasks.append(asyncio.create_task(self._renew_leases()))
        await asyncio.gather(*(informer.wait_settled() for _, informer in self._informers))

    async def close(self) -> None:
        """Stop the informers."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def changed(self) -> None:
        """Wait until an object has changed since the last `observed`."""
        await self._dirty.wait()

    def observed(self) -> Observed:
        """Return the state."""
        self._dirty.clear()
        found: list[Object] = []
        for kind, informer in self._informers:
            bodies = list(informer.store)
            if kind == Kind.EVENT and len(bodies) > MAX_EVENTS:
                bodies = sorted(bodies, key=_event_time)[-MAX_EVENTS:]
            found += bodies
        return Observed(datetime.datetime.now(datetime.UTC), (*found, *self._leases), frozenset(self._unread))

    async def logs(self, namespace: str, pod: str, container: str) -> str:
        """Return the last lines that a container has written.

        Raises
        ------
        TrainyardError
            The API server has none, or rejects the request.
        """
        path = PODS.path(namespace=namespace, name=pod, subresource="log")
        query = {"tailLines": str(LOG_LINES), "limitBytes": str(LOG_BYTES), "container": container}
        response = await self._client.exchange("GET", path, query=query)
        if not response.ok:
            raise TrainyardError(f"No logs of {namespace}/{pod}: {response.error}", fix="see the events of the pod")
        return response.payload.decode("utf-8", "replace")

    async def _add(self, resource: Resource, kind: str, selector: str | None = None) -> None:
        namespace = None
        if not await self._may_list(resource, None, selector):
            self._unread.add(kind)
            namespace = self._namespace
            if namespace is None or not resource.namespaced or selector is not None:
                return
            if not await self._may_list(resource, namespace, selector):
                return
        transform = webhook_body if resource in _WEBHOOKS else redacted
        informer = Informer(
            self._client,
            resource,
            namespace=namespace,
            field_selector=selector,
            transform=lambda body: dict(transform(body)),
            missing_retry=_MISSING_SECONDS,
        )
        self._informers.append((kind, informer))

    async def _add_deployments(self) -> None:
        for name in PLATFORM_DEPLOYMENTS:
            await self._add(DEPLOYMENTS, Kind.DEPLOYMENT, f"metadata.name={name}")

    async def _may_list(self, resource: Resource, namespace: str | None, selector: str | None) -> bool:
        try:
            await self._client.page(resource, namespace=namespace, field_selector=selector, limit=1)
        except ApiError as error:
            if error.status == HTTPStatus.FORBIDDEN:
                return False
            if not error.not_found:
                raise
        return True

    def _on_change(self, change: Change) -> None:
        if change.old is None or change.new is None or _relevant(change.old) != _relevant(change.new):
            self._dirty.set()

    async def _renew_leases(self) -> None:
        """Read the Leases of the platform: they change every two seconds, so a watch of them would redraw pages."""
        while True:
            await asyncio.sleep(_LEASE_SECONDS)
            before = self.fault
            with contextlib.suppress(ApiError):
                await self._read_leases()
            if self.fault != before:
                self._dirty.set()

    async def _read_leases(self) -> None:
        names = [name for names in PLATFORM_LEASES.values() for name in names]
        reads = (self._client.list(LEASES, field_selector=f"metadata.name={name}") for name in names)
        try:
            self._leases = [body for bodies in await asyncio.gather(*reads) for body in bodies]
        except TransportError as error:
            self.fault = f"no answer from the API server: {error}"
        except ApiError as error:
            if error.status != HTTPStatus.FORBIDDEN:
                raise
            self._unread.add(Kind.LEASE)
            self.fault = ""
        else:
            self.fault = ""


def _relevant(body: Object) -> Any:
    """Return an object without what only its heartbeats change."""
    metadata = {name: value for name, value in body["metadata"].items() if name != "resourceVersion"}
    found = {**body, "metadata": metadata}
    if kind_of(body) == Kind.NODE:
        status = dict(body.get("status") or {})
        conditions = status.get("conditions") or ()
        status["conditions"] = [
            {name: value for name, value in each.items() if name not in _HEARTBEATS} for each in conditions
        ]
        found["status"] = status
    return found


def _event_time(body: Object) -> str:
    return str(body.get("lastTimestamp") or body.get("eventTime") or "")
