"""Leader election by a Lease; the leader stops before another candidate can acquire the lease."""

from __future__ import annotations

import asyncio
import datetime
import logging
import random
import time
from collections.abc import Callable
from typing import Any

from trainyard.kube.api_errors import ApiError, TransportError
from trainyard.kube.client import Client
from trainyard.kube.resource import Object, Resource

_LOG = logging.getLogger(__name__)
_RELEASED_SECONDS = 1
LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease")


class LeadershipLostError(Exception):
    """The lease was not renewed in time or is held by another process; this process should exit."""


def monotonic() -> float:
    """Return monotonic seconds, including time in which the machine was suspended if the system supports it."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if clock is None else time.clock_gettime(clock)


class LeaderElector:
    """One candidate for a Lease.

    `is_leader` is true until ``renew_seconds`` after the last successful renewal was *sent*, on a monotonic clock.
    Other candidates acquire the lease ``lease_seconds`` after they observed that renewal. A leader that was paused
    therefore detects before a write that its lease has expired.

    Why two leaders never write at the same time: a write through ``client.fenced(elector.remaining)``, retries
    included, times out before the leader's own deadline. The server may still execute a request after its client timed
    out, but it received the same limit (``timeout``), and ``lease_seconds - renew_seconds`` pass between that deadline
    and the earliest acquisition by another candidate. Writes that are delayed even longer (a frozen machine whose
    kernel sends buffered requests) fail: all writes except creates and Events carry a uid or resourceVersion as
    precondition, and a create conflicts on the name while the object exists. After that it makes another one, which
    its controller has to recognize: `trainyard.controller.lifecycle` deletes a JobSet that was created late.

    A Lease that was deleted, or whose holder was removed, does not say that its leader has stopped. The leader restores
    it with its next renewal; others wait as long as after a renewal before they acquire it. A candidate that has just
    started and finds no Lease has observed none: it creates the Lease at once, because the first candidate in a cluster
    finds the same. A release is recognized by its duration of one second, which client-go writes too.

    Parameters
    ----------
    client
        API client, not fenced by this elector. The elector uses its own connections and request slots, so renewals do
        not wait for other requests.
    name, namespace
        The Lease.
    identity
        Unique name of this candidate.
    lease_seconds, renew_seconds, retry_seconds
        Lease duration, renew deadline, retry period; each shorter than the one before.
    clock
        Monotonic seconds.
    on_change
        Called with True when leadership is acquired, False when it ends.
    """

    def __init__(
        self,
        client: Client,
        *,
        name: str,
        namespace: str,
        identity: str,
        lease_seconds: float = 15.0,
        renew_seconds: float = 10.0,
        retry_seconds: float = 2.0,
        clock: Callable[[], float] = monotonic,
        on_change: Callable[[bool], None] | None = None,
    ) -> None:
        if not lease_seconds > renew_seconds > retry_seconds:
            raise ValueError("lease_seconds > renew_seconds > retry_seconds must hold")
        self.identity = identity
        self._client = client.separate(timeout=renew_seconds / 2, patience=0.0, concurrency=2)
        self._name = name
        self._namespace = namespace
        self._lease_seconds = lease_seconds
        self._renew_seconds = renew_seconds
        self._retry_seconds = retry_seconds
        self._clock = clock
        self._on_change = on_change or (lambda leads: None)
        self._deadline = float("-inf")
        self._observed: tuple[str, str] | None = None
        self._observed_until = float("-inf")

    def is_leader(self) -> bool:
        """Return whether this candidate may write now."""
        return self.remaining() > 0

    def remaining(self) -> float:
        """Return the seconds for which this candidate may still write; 0 if it is not the leader."""
        return max(0.0, self._deadline - self._clock())

    async def acquire(self) -> None:
        """Wait until this candidate is the leader."""
        while not (await self._attempt() and self.is_leader()):  # noqa: ASYNC110 - others change the lease
            await asyncio.sleep(self._retry_seconds * random.uniform(1.0, 1.2))  # noqa: S311 - spreads load
        _LOG.info("acquired lease %s/%s as %s", self._namespace, self._name, self.identity)
        self._on_change(True)

    async def hold(self) -> None:
        """Renew the lease until leadership is lost.

        Raises
        ------
        LeadershipLostError
            Always, unless cancelled.
        """
        wait = self._retry_seconds
        try:
            while self.is_leader():
                await asyncio.sleep(min(wait, self.remaining()))
                sent = self._clock()
                await self._attempt()
                wait = max(0.0, sent + self._retry_seconds - self._clock())
        finally:
            self._on_change(False)
        raise LeadershipLostError(f"lease {self._namespace}/{self._name} was not renewed in {self._renew_seconds:g} s")

    async def release(self) -> None:
        """Release the lease, so that another candidate can acquire it at once."""
        led, self._deadline = self.is_leader(), float("-inf")
        if not led:
            return
        try:
            lease = await self._client.get(LEASES, self._name, namespace=self._namespace)
            if lease["spec"].get("holderIdentity") == self.identity:
                released = {"holderIdentity": "", "leaseDurationSeconds": _RELEASED_SECONDS, "renewTime": _now()}
                await self._client.replace(LEASES, {**lease, "spec": {**lease["spec"], **released}})
        except (ApiError, TransportError) as error:
            _LOG.warning("lease %s/%s was not released: %s", self._namespace, self._name, error)

    async def _attempt(self) -> bool:
        sent = self._clock()
        patience = self._renew_seconds / 2
        try:
            async with asyncio.timeout(min(patience, self.remaining()) if self.is_leader() else patience):
                held = await self._acquire_or_renew()
        except (ApiError, TransportError, TimeoutError) as error:
            _LOG.warning("lease %s/%s: %s", self._namespace, self._name, str(error) or "timed out")
            return False
        except Exception:
            _LOG.exception("lease %s/%s", self._namespace, self._name)
            return False
        if held:
            self._deadline = sent + self._renew_seconds
            self._forget_renewals()
        return held

    async def _acquire_or_renew(self) -> bool:
        lease = await self._client.find(LEASES, self._name, namespace=self._namespace)
        if lease is None:
            if self._observed is not None and not self.is_leader() and not self._expired({}, ""):
                return False
            metadata = {"name": self._name, "namespace": self._namespace}
            body = {
                "apiVersion": "coordination.k8s.io/v1",
                "kind": "Lease",
                "metadata": metadata,
                "spec": self._spec(None),
            }
            await self._client.create(LEASES, body)
            return True
        spec = lease.get("spec") or {}
        holder = str(spec.get("holderIdentity") or "")
        if not holder and self._duration(spec) <= _RELEASED_SECONDS:
            self._forget_renewals()
        elif holder != self.identity and not (not holder and self.is_leader()) and not self._expired(spec, holder):
            self._deadline = float("-inf")
            return False
        await self._client.replace(LEASES, {**lease, "spec": self._spec(lease)})
        return True

    def _expired(self, spec: Object, holder: str) -> bool:
        """Whether the lease has expired, measured from when this process observed its last renewal."""
        renewal = (holder, str(spec.get("renewTime") or ""))
        if renewal != self._observed:
            self._observed, self._observed_until = renewal, self._clock() + self._duration(spec)
        return self._clock() > self._observed_until

    def _duration(self, spec: Object) -> float:
        return float(spec.get("leaseDurationSeconds") or self._lease_seconds)

    def _forget_renewals(self) -> None:
        """Forget the renewals of a former leader."""
        self._observed, self._observed_until = None, float("-inf")

    def _spec(self, lease: Object | None) -> dict[str, Any]:
        old = (lease or {}).get("spec") or {}
        changes = old.get("holderIdentity") != self.identity
        now = _now()
        return {
            **old,
            "holderIdentity": self.identity,
            "leaseDurationSeconds": max(1, round(self._lease_seconds)),
            "acquireTime": now if changes else old.get("acquireTime") or now,
            "renewTime": now,
            "leaseTransitions": int(old.get("leaseTransitions") or 0) + (1 if lease is not None and changes else 0),
        }


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
