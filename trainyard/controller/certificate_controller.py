"""Webhook certificates, the leader's side: issue, renew and publish each, independently of the others."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import logging
from collections.abc import Awaitable, Callable, Container, Sequence

from prometheus_client import Gauge

from trainyard import pki
from trainyard.controller.certificates import (
    Authority,
    authority_data,
    authority_of,
    bundle_patch,
    certificate_data,
    certificate_due,
    same_data,
    secret,
    serves,
)
from trainyard.controller.configuration import Certificate, Configuration
from trainyard.controller.metrics import Metrics
from trainyard.controller.resources import (
    MUTATING_WEBHOOKS,
    NAMESPACES,
    SECRETS,
    VALIDATING_WEBHOOKS,
)
from trainyard.kube import ApiError, Backoff, Change, Client, FencedError, Informer, Object, Resource, TransportError

__all__ = ["Issuer", "Loop"]

_LOG = logging.getLogger(__name__)
_FIELD_MANAGER = "trainyard-controller"
_CHECK_AT_LEAST = datetime.timedelta(hours=1)
Clock = Callable[[], datetime.datetime]


class Loop:
    """Repeats one step: when it is due, when something changed, and with backoff after an error.

    Parameters
    ----------
    name
        Namespace and name of the Secret that the step keeps.
    informers
        What the step reads. It begins when they are synced, or after ``patience`` seconds without them.
    step
        Does the work; returns when it is due again.
    failing
        1 while the last attempt failed.
    """

    def __init__(
        self,
        name: str,
        informers: Sequence[Informer],
        step: Callable[[], Awaitable[datetime.datetime]],
        *,
        failing: Gauge,
        clock: Clock,
        backoff: Backoff,
        patience: float,
    ) -> None:
        self.changed = asyncio.Event()
        self.due: datetime.datetime | None = None
        """Time of the next step; None: one is under way."""
        self._name = name
        self._informers = informers
        self._step = step
        self._failing = failing
        self._clock = clock
        self._backoff = backoff
        self._patience = patience

    async def run(self) -> None:
        """Work until cancelled.

        Raises
        ------
        FencedError
            If this process no longer leads.
        """
        try:
            async with asyncio.timeout(self._patience):
                await asyncio.gather(*(informer.wait_synced() for informer in self._informers))
        except TimeoutError:
            _LOG.warning("certificate %s: something it depends on cannot be watched; it is kept without", self._name)
        while True:
            self.changed.clear()
            self.due = await self._attempt()
            wait = min(self.due - self._clock(), _CHECK_AT_LEAST).total_seconds()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(wait, 0.05)):
                    await self.changed.wait()
            self.due = None

    async def _attempt(self) -> datetime.datetime:
        try:
            due = await self._step()
        except FencedError:
            raise
        except Exception as error:
            self._failing.set(1)
            wait = self._backoff.next()
            foreseen = isinstance(error, ApiError | TransportError)
            _LOG.warning(
                "certificate %s: %s; again in %.1f s", self._name, error, wait, exc_info=None if foreseen else error
            )
            return self._clock() + datetime.timedelta(seconds=wait)
        self._failing.set(0)
        self._backoff.reset()
        return due


class Issuer:
    """Keeps certificate Secrets and caBundles as the configuration says.

    Everything is decided from what is stored, so it may be stopped between any two writes. Each certificate has a loop
    of its own: a namespace that refuses its Secret, or a webhook configuration that refuses its bundle, delays no other
    certificate. Bundles go out before certificates, a minute before where an authority has a predecessor: an API server
    trusts a new authority before any webhook server uses it.

    Parameters
    ----------
    client
        Fenced API client.
    configuration
        Names the certificates.
    metrics
        Reports when certificates expire, and which fail.
    clock
        Wall clock (UTC).
    backoff
        Returns the waiting after failures, one for each certificate.
    patience
        Seconds to wait for informers at the start; what cannot be watched then is read directly.
    """

    def __init__(
        self,
        client: Client,
        configuration: Configuration,
        metrics: Metrics,
        *,
        clock: Clock = lambda: datetime.datetime.now(datetime.UTC),
        backoff: Callable[[], Backoff] = lambda: Backoff(0.2, 30.0),
        patience: float = 5.0,
    ) -> None:
        self._client = client
        self._configuration = configuration
        self._metrics = metrics
        self._clock = clock
        self._backoff = backoff
        self._patience = patience
        self._trusted: Authority | None = None
        self._rotating = asyncio.Lock()
        homes = {configuration.namespace, *(entry.namespace for entry in configuration.certificates)}
        self._namespaces = {home: _named(client, NAMESPACES, home) for home in sorted(homes)}
        self._authority = _named(client, SECRETS, configuration.authority_secret, configuration.namespace)
        own = configuration.namespace, configuration.serving_secret
        entries = sorted(configuration.certificates, key=lambda entry: (entry.namespace, entry.secret) != own)
        self._secrets = {entry: _named(client, SECRETS, entry.secret, entry.namespace) for entry in entries}
        self._webhooks = (Informer(client, MUTATING_WEBHOOKS), Informer(client, VALIDATING_WEBHOOKS))
        self._authority_loop = self._loop(
            configuration.namespace, configuration.authority_secret, [self._authority], self._keep_authority
        )
        self._authority.subscribe(_waking(self._authority_loop, [configuration.authority_secret]))
        self._certificate_loops = [self._certificate_loop(entry) for entry in entries]

    @property
    def informers(self) -> Sequence[Informer]:
        """What has to run beside it."""
        return *self._namespaces.values(), self._authority, *self._secrets.values(), *self._webhooks

    @property
    def loops(self) -> Sequence[Loop]:
        """The authority's loop, the trainer's own certificate's, and those of the others."""
        return self._authority_loop, *self._certificate_loops

    async def run(self) -> None:
        """Work until cancelled."""
        if not self._configuration.certificates:
            return
        async with asyncio.TaskGroup() as group:
            for informer in self.informers:
                group.create_task(informer.run())
            for loop in self.loops:
                group.create_task(loop.run())

    def _loop(
        self,
        namespace: str,
        name: str,
        informers: Sequence[Informer],
        step: Callable[[], Awaitable[datetime.datetime]],
    ) -> Loop:
        loop = Loop(
            f"{namespace}/{name}",
            [self._namespaces[namespace], *informers],
            step,
            failing=self._metrics.certificate_failing.labels(f"{namespace}/{name}"),
            clock=self._clock,
            backoff=self._backoff(),
            patience=self._patience,
        )
        self._namespaces[namespace].subscribe(_waking(loop, [namespace]))
        return loop

    def _certificate_loop(self, entry: Certificate) -> Loop:
        announced = [(informer, names) for informer, names in self._announced(entry) if names]
        informers = [self._secrets[entry], *(informer for informer, _ in announced)]
        loop = self._loop(entry.namespace, entry.secret, informers, lambda: self._keep_certificate(entry))
        self._secrets[entry].subscribe(_waking(loop, [entry.secret]))
        for informer, names in announced:
            informer.subscribe(_waking(loop, names))
        return loop

    def _announced(self, entry: Certificate) -> Sequence[tuple[Informer, Sequence[str]]]:
        """Return the webhook configurations that have to trust a certificate."""
        mutating, validating = self._webhooks
        return (
            (mutating, sorted(entry.mutating_webhook_configurations)),
            (validating, sorted(entry.validating_webhook_configurations)),
        )

    async def _keep_authority(self) -> datetime.datetime:
        async with self._rotating:
            return await self._rotate()

    async def _rotate(self) -> datetime.datetime:
        settings, now = self._configuration, self._clock()
        if not self._exists(settings.namespace):
            return now + _CHECK_AT_LEAST
        stored = await self._stored(self._authority, settings.authority_secret, settings.namespace)
        authority = authority_of(stored, now=now)
        data = authority_data(authority)
        if not same_data(stored, data):
            await self._write(self._authority, secret(settings.authority_secret, settings.namespace, data, stored))
        if authority != self._trusted:
            self._trusted = authority
            for loop in self._certificate_loops:
                loop.changed.set()
        return authority.due()

    async def _keep_certificate(self, entry: Certificate) -> datetime.datetime:
        now = self._clock()
        if self._trusted is not None and self._trusted.due() <= now:
            # Its own loop reports the error.
            with contextlib.suppress(ApiError, TransportError):
                await self._keep_authority()
        authority = self._trusted
        if authority is None or not self._exists(entry.namespace):
            return now + _CHECK_AT_LEAST
        refused = await self._announce(entry, authority)
        informer = self._secrets[entry]
        stored = await self._stored(informer, entry.secret, entry.namespace)
        if not (refused and serves(stored, entry, authority, now=now)):
            data = certificate_data(stored, entry, authority, now=now)
            if not same_data(stored, data):
                stored = await self._write(informer, secret(entry.secret, entry.namespace, data, stored))
            expiry = pki.expires(data["tls.crt"]).timestamp()
            self._metrics.certificate_expiry.labels(f"{entry.namespace}/{entry.secret}").set(expiry)
        if refused is not None:
            raise refused
        return certificate_due(stored, entry, authority) or now

    async def _announce(self, entry: Certificate, authority: Authority) -> Exception | None:
        """Write the bundle into each webhook configuration; return an error if there was one."""
        refused: Exception | None = None
        for informer, names in self._announced(entry):
            for name in names:
                try:
                    await self._trust(informer, name, authority)
                except (ApiError, TransportError) as error:
                    _LOG.warning("%s %s does not get its caBundle: %s", informer.resource.kind, name, error)
                    refused = error
        return refused

    async def _trust(self, informer: Informer, name: str, authority: Authority) -> None:
        stored = await self._stored(informer, name)
        operations = bundle_patch(stored, authority.bundle) if stored is not None else []
        if operations:
            resource = informer.resource
            informer.record_write(
                await self._client.json_patch(resource, name, operations, field_manager=_FIELD_MANAGER)
            )
            _LOG.info("%s %s trusts the webhook authority", resource.kind, name)

    async def _stored(self, informer: Informer, name: str, namespace: str = "") -> Object | None:
        """Return an object, asking the API server where it cannot be watched."""
        if informer.synced:
            return informer.store.get(namespace, name)
        return await self._client.find(informer.resource, name, namespace=namespace or None)

    async def _write(self, informer: Informer, body: Object) -> Object:
        # What was read is replaced at the version that was read; where nothing was, nothing is taken from others.
        known = "resourceVersion" in body["metadata"]
        stored = await self._client.apply(SECRETS, body, field_manager=_FIELD_MANAGER, force=known)
        informer.record_write(stored)
        _LOG.info("Secret %s/%s written", body["metadata"]["namespace"], body["metadata"]["name"])
        return stored

    def _exists(self, namespace: str) -> bool:
        """Whether a namespace may be written to; where it cannot be watched, the write shows it."""
        informer = self._namespaces[namespace]
        if not informer.synced:
            return True
        body = informer.store.get("", namespace)
        return body is not None and not body["metadata"].get("deletionTimestamp")


def _waking(loop: Loop, names: Container[str]) -> Callable[[Change], None]:
    """Return a handler that has a loop look again when an object of one of these names changes."""

    def handler(change: Change) -> None:
        if change.key[1] in names:
            loop.changed.set()

    return handler


def _named(client: Client, resource: Resource, name: str, namespace: str | None = None) -> Informer:
    return Informer(client, resource, namespace=namespace, field_selector=f"metadata.name={name}")
