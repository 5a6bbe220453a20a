"""State of a live cluster: one informer a kind for all viewers, without secrets, and only what the user may read."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import logging
import random
import time
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final

from trainyard.cluster_state.body_fields import name_of, namespace_of
from trainyard.cluster_state.cluster_index import ClusterIndex, kind_of
from trainyard.cluster_state.cluster_snapshot import CLUSTER_KINDS, JOB_KINDS, MAX_EVENTS, MAX_OBJECTS
from trainyard.cluster_state.observed import Kind, Observed
from trainyard.cluster_state.platform_programs import DEPLOYMENTS as PLATFORM_DEPLOYMENTS
from trainyard.cluster_state.platform_programs import LEASES as PLATFORM_LEASES
from trainyard.cluster_state.redaction import redacted
from trainyard.errors import TrainyardError
from trainyard.insight.console.views.platform_health import webhook_body
from trainyard.insight.explain.causes.controllers import fault_of
from trainyard.insight.explain.named_objects import short_kind
from trainyard.kube.api_errors import ApiError, CredentialsError, TransportError
from trainyard.kube.client import Client
from trainyard.kube.informer import Informer
from trainyard.kube.kinds import DEPLOYMENTS, MUTATING_WEBHOOKS, PODS, VALIDATING_WEBHOOKS
from trainyard.kube.leader import LEASES
from trainyard.kube.resource import Object, Resource
from trainyard.kube.store import StoreChange
from trainyard.kube.training_kinds import TRAIN_JOBS

LOG_LINES: Final = 200
LOG_BYTES: Final = 64 << 10
"""Bounds of the logs of one container that are shown."""
WEBHOOKS: Final = (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS)
WHOLE_KINDS: Final[Mapping[str, Resource]] = {
    **{kind: resource for resource, kind in (*JOB_KINDS, *CLUSTER_KINDS)},
    Kind.POD: PODS,
    **{f"{each.kind}.{each.group}": each for each in WEBHOOKS},
}
"""Resource of each kind of which all objects are read."""
_LOG_REQUESTS: Final = (LOG_LINES, LOG_LINES // 10, 1)
"""Lines of further requests, while the API server cuts the newest off because the lines are long."""
_LOG_READ: Final = 1 << 20
_LOG = logging.getLogger(__name__)
_LEASE_SECONDS: Final = 15.0
_MISSING_SECONDS: Final = 60.0
_REFRESH_SECONDS: Final = 60.0
_OLD_SECONDS: Final = 60.0
"""Seconds of failures after which the state is called old; a watch without events lasts at most 43 s."""
_FIRST_LISTS_SECONDS: Final = 10.0
"""Seconds after which the first lists are not waited for if they fail."""
_HEARTBEATS: Final = ("lastHeartbeatTime",)


class LiveSource:
    """A live cluster.

    Parameters
    ----------
    client
        API client of the viewer.
    name
        Name of the cluster for the pages.
    namespaces
        Namespaces in which kinds are read that the viewer may not list in all. Of several, those count in which the
        viewer may list TrainJobs or pods.
    requests
        Returns the number of requests of the client so far.
    watch_seconds
        Shortest and longest timeout of a watch: a right that is taken away is noticed when a watch is opened again.

    Attributes
    ----------
    accepted
        Monotonic seconds at which the API server last accepted the credentials of the client.
    is_rejected
        Whether it has rejected them since.
    """

    def __init__(
        self,
        client: Client,
        name: str,
        namespaces: Sequence[str] = (),
        requests: Callable[[], int] = lambda: 0,
        watch_seconds: tuple[int, int] = (30, 36),
    ) -> None:
        self._client = client
        self.name = name
        self._namespaces = tuple(namespaces)
        self._watch_seconds = watch_seconds
        self._requests = requests
        self._informers: list[tuple[str, Informer]] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._leases: list[Object] = []
        self._unread: set[str] = set()
        self._dirty = asyncio.Event()
        self._lost = asyncio.Event()
        self._readable: frozenset[object] = frozenset()
        self.losses = 0
        self._checked: datetime.datetime | None = None
        self._lease_fault = ""
        self._known: object = None
        self.fault = ""
        self.accepted = float("-inf")
        self.is_rejected = False
        self.confirmed: datetime.datetime | None = None

    @property
    def requests(self) -> int:
        """Requests to the API server so far."""
        return self._requests()

    async def start(self) -> None:
        """Start the informers, and wait for their first lists, but not for kinds whose lists fail."""
        if len(self._namespaces) > 1:
            self._namespaces = await self._readable_namespaces()
        await asyncio.gather(*(self._add(each, kind) for kind, each in WHOLE_KINDS.items()), self._add_deployments())
        for _, informer in self._informers:
            informer.subscribe(self._on_change)
            self._tasks.append(asyncio.create_task(informer.run()))
        settled = [asyncio.create_task(informer.wait_settled()) for _, informer in self._informers]
        try:
            while any(not each.settled and each.failure is None for _, each in self._informers):
                await asyncio.wait(settled, timeout=_FIRST_LISTS_SECONDS)
        finally:
            for task in settled:
                task.cancel()
        await self._check()
        self._tasks.append(asyncio.create_task(self._check_often()))

    async def close(self) -> None:
        """Stop the informers."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def changed(self) -> None:
        """Wait until an object has changed since the last `observed`, at most a minute: ages and heartbeats change."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_REFRESH_SECONDS):  # wait_for of Python 3.11 ignores some cancellations
                await self._dirty.wait()

    async def lost(self) -> None:
        """Wait until a kind can no longer be read that could."""
        await self._lost.wait()

    def observed(self) -> Observed:
        """Return the state."""
        self._note_losses()
        self._dirty.clear()
        self._lost.clear()
        self.confirmed = self._checked
        unread = self._unread_now()
        found: list[Object] = []
        for kind, informer in self._informers:
            if _is_closed(kind, informer):
                continue
            bodies = list(informer.store)
            if kind == Kind.EVENT and len(bodies) > MAX_EVENTS:
                bodies = sorted(bodies, key=_event_time)[-MAX_EVENTS:]
            found += bodies
        return Observed(datetime.datetime.now(datetime.UTC), (*found, *self._leases), unread)

    async def logs(self, namespace: str, pod: str, container: str) -> str:
        """Return the last lines that a container has written.

        Raises
        ------
        TrainyardError
            The API server has none, or rejects the request.
        """
        path = PODS.path(namespace=namespace, name=pod, subresource="log")
        for lines in _LOG_REQUESTS:
            query = {"tailLines": str(lines), "limitBytes": str(_LOG_READ), "container": container}
            response = await self._client.exchange("GET", path, query=query)
            if not response.ok:
                raise TrainyardError(f"No logs of {namespace}/{pod}: {response.error}", fix="see the events of the pod")
            if len(response.payload) < _LOG_READ:
                break
        return response.payload[-LOG_BYTES:].decode("utf-8", "replace")

    async def _readable_namespaces(self) -> tuple[str, ...]:
        """Return the namespaces in which the viewer may list TrainJobs or pods; none is read if all may be listed."""
        if await self._may_list(TRAIN_JOBS, None, None) and await self._may_list(PODS, None, None):
            return ()

        async def readable(namespace: str) -> bool:
            return await self._may_list(TRAIN_JOBS, namespace, None) or await self._may_list(PODS, namespace, None)

        found = await asyncio.gather(*(readable(each) for each in self._namespaces))
        return tuple(each for each, may in zip(self._namespaces, found, strict=True) if may)

    async def _add(self, resource: Resource, kind: str, selector: str | None = None) -> None:
        if await self._may_list(resource, None, selector):
            self._follow(resource, kind, None, selector)
            return
        self._unread.add(kind)
        if not resource.namespaced or selector is not None:
            return
        for namespace in self._namespaces:
            if await self._may_list(resource, namespace, selector):
                self._follow(resource, kind, namespace, selector)

    def _follow(self, resource: Resource, kind: str, namespace: str | None, selector: str | None) -> None:
        transform = webhook_body if resource in WEBHOOKS else redacted
        informer = Informer(
            self._client,
            resource,
            namespace=namespace,
            field_selector=selector,
            transform=lambda body: dict(transform(body)),
            missing_retry=_MISSING_SECONDS,
            timeout_seconds=lambda: random.randint(*self._watch_seconds),  # noqa: S311 - spreads load
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

    def _on_change(self, change: StoreChange) -> None:
        if change.old is None or change.new is None or _relevant(change.old) != _relevant(change.new):
            self._dirty.set()

    async def _check_often(self) -> None:
        while True:
            await asyncio.sleep(_LEASE_SECONDS)
            try:
                await self._check()
            except Exception as error:
                _LOG.exception("the state could not be checked")
                self.fault = f"it could not be checked: {error}"
                self._dirty.set()

    async def _check(self) -> None:
        """Read the Leases of the platform, and find out whether the state is current and complete.

        Leases change every two seconds, so a watch of them would redraw pages.
        """
        started = datetime.datetime.now(datetime.UTC)
        await self._read_leases()
        failing = [pair for pair in self._informers if pair[1].failure is not None and not _is_forbidden(pair[1])]
        self.fault = self._lease_fault or _fault_of(failing)
        closed = tuple(_is_closed(*pair) for pair in self._informers)  # a kind may be read in some namespaces only
        self._note_losses()
        known = self.fault, self._unread_now(), closed, self._stopped()
        if known != self._known:
            self._known = known
            self._dirty.set()
        if self._lease_fault or failing:
            return
        self._checked = started
        if not self._dirty.is_set():
            self.confirmed = started

    async def _read_leases(self) -> None:
        names = [name for names in PLATFORM_LEASES.values() for name in names]
        reads = (self._client.list(LEASES, field_selector=f"metadata.name={name}") for name in names)
        self._lease_fault = ""
        found: list[Object] = []
        begun = time.monotonic()
        try:
            found = [body for bodies in await asyncio.gather(*reads) for body in bodies]
            self._unread.discard(Kind.LEASE)
            self.accepted, self.is_rejected = begun, False
        except TransportError as error:
            self._lease_fault = f"no answer from the API server: {error}"
            self.is_rejected |= isinstance(error, CredentialsError)
        except ApiError as error:
            self._unread.add(Kind.LEASE)
            if error.status == HTTPStatus.FORBIDDEN:
                self.accepted, self.is_rejected = begun, False
            else:
                self._lease_fault = f"the API server rejects reads: {error}"
        self._leases = found  # old ones would say that their programs have stopped

    def _note_losses(self) -> None:
        """Record that a kind may not be read any more, in a namespace or in all."""
        readable = {informer for kind, informer in self._informers if not _is_closed(kind, informer)}
        found = frozenset({*readable, *(() if Kind.LEASE in self._unread else (Kind.LEASE,))})
        if not self._readable <= found:
            self.losses += 1
            self._lost.set()
        self._readable = found

    def _unread_now(self) -> frozenset[str]:
        """Return the kinds that may not be read now, or whose first lists fail."""
        return frozenset({*self._unread, *(kind for kind, informer in self._informers if _is_closed(kind, informer))})

    def _stopped(self) -> frozenset[str]:
        """Return the programs that do not run by Deployments and Leases: no other object changes when one hangs."""
        found = [body for kind, informer in self._informers if kind == Kind.DEPLOYMENT for body in informer.store]
        index = ClusterIndex(Observed(datetime.datetime.now(datetime.UTC), (*found, *self._leases)))
        names = ((name_of(body), namespace_of(body), body) for body in found)
        return frozenset(name for name, namespace, body in names if fault_of(index, name, namespace, body))


def _is_forbidden(informer: Informer) -> bool:
    return isinstance(informer.failure, ApiError) and informer.failure.status == HTTPStatus.FORBIDDEN


def _is_closed(kind: str, informer: Informer) -> bool:
    """Return whether the store is not shown: the kind may not be read, has no first list yet, or too many objects."""
    is_large = kind != Kind.EVENT and len(informer.store) > MAX_OBJECTS
    return _is_forbidden(informer) or not informer.settled or is_large


def _fault_of(failing: list[tuple[str, Informer]]) -> str:
    """Return why the state may be old: a kind that has failed for long, or whose first list fails."""
    now = time.monotonic()
    for kind, informer in failing:
        if not informer.settled or now - informer.failing_since > _OLD_SECONDS:
            return f"{short_kind(kind)}s are not up to date: {informer.failure}"
    return ""


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
