"""Leader election by a Lease, with a deadline of our own before another process may lead."""

from __future__ import annotations

import asyncio
import datetime
import logging
import random
import time
from collections.abc import Callable
from typing import Any

from trainyard.kube.client import Client
from trainyard.kube.errors import ApiError, TransportError
from trainyard.kube.resource import Object, Resource

__all__ = ["LEASES", "LeaderElector", "LeadershipLostError", "monotonic"]

_LOG = logging.getLogger(__name__)
LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease")


class LeadershipLostError(Exception):
    """The lease could not be renewed in time or was taken by another process; this one should exit."""


def monotonic() -> float:
    """Return seconds of a clock that goes on while the machine sleeps, where the system has one."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if clock is None else time.clock_gettime(clock)


class LeaderElector:
    """One candidate for a Lease.

    `is_leader` is true until ``renew_seconds`` after the last renewal that succeeded was *sent*, on a monotonic clock;
    others take over ``lease_seconds`` after they saw that renewal. A leader that was paused therefore knows, before it
    writes, that it no longer leads.

    Why two leaders never write at the same time: a write through ``client.fenced(elector.remaining)`` is given up
    before the leader's own deadline, with every repetition. The server may still execute a request whose client gave
    up; it was told the same limit (``timeout``), and ``lease_seconds - renew_seconds`` lie between that deadline and
    the first moment at which another may lead. What is delayed for longer (a frozen machine whose kernel sends what was
    buffered) is stopped by the uid or resourceVersion that every write but creates and Events carries, and a create
    by the name.

    Parameters
    ----------
    client
        API client; the elector has connections and slots of its own, so a renewal waits for no other request. Must not
        be fenced by this elector.
    name, namespace
        The Lease.
    identity
        Name of this candidate, unique.
    lease_seconds, renew_seconds, retry_seconds
        Validity for others, own deadline, time between attempts; each smaller than the one before.
    clock
        Monotonic seconds.
    on_change
        Called with true and false as leadership comes and goes.
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
        self._seen: tuple[str, str] | None = None
        self._seen_at = float("-inf")

    def is_leader(self) -> bool:
        """Return whether this candidate may write now."""
        return self.remaining() > 0

    def remaining(self) -> float:
        """Return the seconds for which this candidate still may write, 0 where it does not lead."""
        return max(0.0, self._deadline - self._clock())

    async def acquire(self) -> None:
        """Wait until this candidate leads."""
        while not (await self._attempt() and self.is_leader()):  # noqa: ASYNC110 - others change the lease
            await asyncio.sleep(self._retry_seconds * random.uniform(1.0, 1.2))  # noqa: S311 - spreads load
        _LOG.info("leading as %s", self.identity)
        self._on_change(True)

    async def hold(self) -> None:
        """Renew until leadership is lost.

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
        """Stop leading and let others take over at once."""
        led, self._deadline = self.is_leader(), float("-inf")
        if not led:
            return
        try:
            lease = await self._client.get(LEASES, self._name, namespace=self._namespace)
            if lease["spec"].get("holderIdentity") == self.identity:
                spec = {**lease["spec"], "holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": _now()}
                await self._client.replace(LEASES, {**lease, "spec": spec})
        except (ApiError, TransportError) as error:
            _LOG.warning("lease %s/%s was not released: %s", self._namespace, self._name, error)

    async def _attempt(self) -> bool:
        sent = self._clock()
        patience = self._renew_seconds / 2
        try:
            async with asyncio.timeout(min(patience, self.remaining()) if self.is_leader() else patience):
                held = await self._take()
        except (ApiError, TransportError, TimeoutError) as error:
            _LOG.warning("lease %s/%s: %s", self._namespace, self._name, str(error) or "no answer in time")
            return False
        except Exception:
            _LOG.exception("lease %s/%s", self._namespace, self._name)
            return False
        if held:
            self._deadline = sent + self._renew_seconds
        return held

    async def _take(self) -> bool:
        lease = await self._client.find(LEASES, self._name, namespace=self._namespace)
        if lease is None:
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
        if holder not in ("", self.identity) and not self._stale(spec, holder):
            self._deadline = float("-inf")
            return False
        await self._client.replace(LEASES, {**lease, "spec": self._spec(lease)})
        return True

    def _stale(self, spec: Object, holder: str) -> bool:
        """Whether the holder has not renewed for the time it promised, measured since we saw its last renewal."""
        seen = (holder, str(spec.get("renewTime") or ""))
        if seen != self._seen:
            self._seen, self._seen_at = seen, self._clock()
        return self._clock() - self._seen_at > float(spec.get("leaseDurationSeconds") or self._lease_seconds)

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
