"""Certificate controller (leader only): issue, renew and publish each webhook certificate independently."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import logging
import uuid
from collections.abc import Awaitable, Callable, Container, Mapping, Sequence

from prometheus_client import Gauge

from trainyard import pki
from trainyard.controller.certificates import (
    Authority,
    authority_data,
    authority_of,
    bundle_patch,
    certificate_data,
    certificate_due,
    data_of,
    fingerprint,
    is_valid,
    same_data,
    secret,
    served,
)
from trainyard.controller.configuration import Certificate, Configuration
from trainyard.controller.metrics import Metrics
from trainyard.controller.pod_restarts import restart_pods
from trainyard.kube.api_errors import ApiError, FencedError, TransportError
from trainyard.kube.backoff import Backoff
from trainyard.kube.client import Client
from trainyard.kube.informer import Informer
from trainyard.kube.kinds import MUTATING_WEBHOOKS, NAMESPACES, SECRETS, VALIDATING_WEBHOOKS
from trainyard.kube.resource import Object, Resource
from trainyard.kube.store import StoreChange

_LOG = logging.getLogger(__name__)
_FIELD_MANAGER = "trainyard-controller"
_CHECK_AT_LEAST = datetime.timedelta(hours=1)
Clock = Callable[[], datetime.datetime]


class Loop:
    """Repeat a step when it is due, after a change, and with backoff after an error.

    Parameters
    ----------
    name
        Namespace and name of the Secret.
    informers
        Inputs of the step. The loop starts when they are synced, at the latest after ``sync_timeout`` seconds.
    step
        Reconciles the Secret; returns when it is due again.
    failing
        1 if the last attempt failed.
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
        sync_timeout: float,
    ) -> None:
        self.changed = asyncio.Event()
        self.due: datetime.datetime | None = None
        """Time of the next step; None while a step runs."""
        self._name = name
        self._informers = informers
        self._step = step
        self._failing = failing
        self._clock = clock
        self._backoff = backoff
        self._sync_timeout = sync_timeout

    async def run(self) -> None:
        """Run until cancelled.

        Raises
        ------
        FencedError
            If this process is no longer the leader.
        """
        try:
            async with asyncio.timeout(self._sync_timeout):
                await asyncio.gather(*(informer.wait_synced() for informer in self._informers))
        except TimeoutError:
            _LOG.warning("certificate %s: informers are not synced; continuing with direct reads", self._name)
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
            expected = isinstance(error, ApiError | TransportError)
            _LOG.warning(
                "certificate %s: %s; retry in %.1f s", self._name, error, wait, exc_info=None if expected else error
            )
            return self._clock() + datetime.timedelta(seconds=wait)
        self._failing.set(0)
        self._backoff.reset()
        return due


class CertificateController:
    """Reconcile certificate Secrets and caBundles with the configuration.

    All decisions depend only on stored objects, so the controller can be stopped between any two writes. Each
    certificate has its own loop: a rejected write of one Secret or webhook configuration does not delay other
    certificates. caBundles are updated before certificates, by a minute if the authority has a predecessor, so that
    API servers trust a new authority before any webhook server uses it. Pods that read their certificate only when they
    start are replaced after a renewal, by their Deployment's own rolling update.

    Parameters
    ----------
    client
        Fenced API client.
    configuration
        Lists the certificates.
    metrics
        Expiry times and failures of certificates.
    clock
        Wall clock (UTC).
    backoff
        Factory of the backoff of each certificate.
    sync_timeout
        Seconds to wait for informers at the start; objects of unsynced informers are read directly.
    """

    def __init__(
        self,
        client: Client,
        configuration: Configuration,
        metrics: Metrics,
        *,
        clock: Clock = lambda: datetime.datetime.now(datetime.UTC),
        backoff: Callable[[], Backoff] = lambda: Backoff(0.2, 30.0),
        sync_timeout: float = 5.0,
    ) -> None:
        self._client = client
        self._configuration = configuration
        self._metrics = metrics
        self._clock = clock
        self._backoff = backoff
        self._sync_timeout = sync_timeout
        self._lifetime = datetime.timedelta(seconds=configuration.certificate_seconds)
        self._first_manager = f"{_FIELD_MANAGER}-{uuid.uuid4().hex[:8]}"
        self._unwritten: dict[Certificate, Object] = {}
        """Secrets whose creation failed: another attempt has the same certificate, so pods are replaced once."""
        self._current_authority: Authority | None = None
        self._authority_lock = asyncio.Lock()
        namespaces = {configuration.namespace, *(entry.namespace for entry in configuration.certificates)}
        self._namespaces = {name: _informer_of(client, NAMESPACES, name) for name in sorted(namespaces)}
        self._authority = _informer_of(client, SECRETS, configuration.authority_secret, configuration.namespace)
        own = configuration.namespace, configuration.serving_secret
        entries = sorted(configuration.certificates, key=lambda entry: (entry.namespace, entry.secret) != own)
        self._secrets = {entry: _informer_of(client, SECRETS, entry.secret, entry.namespace) for entry in entries}
        self._webhooks = (Informer(client, MUTATING_WEBHOOKS), Informer(client, VALIDATING_WEBHOOKS))
        self._authority_loop = self._loop(
            configuration.namespace, configuration.authority_secret, [self._authority], self._reconcile_authority
        )
        self._authority.subscribe(_trigger(self._authority_loop, [configuration.authority_secret]))
        self._certificate_loops = [self._certificate_loop(entry) for entry in entries]

    @property
    def informers(self) -> Sequence[Informer]:
        """Informers that `run` starts."""
        return *self._namespaces.values(), self._authority, *self._secrets.values(), *self._webhooks

    @property
    def loops(self) -> Sequence[Loop]:
        """Loops of the authority, the controller's own certificate and the other certificates."""
        return self._authority_loop, *self._certificate_loops

    async def run(self) -> None:
        """Run until cancelled."""
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
            sync_timeout=self._sync_timeout,
        )
        self._namespaces[namespace].subscribe(_trigger(loop, [namespace]))
        return loop

    def _certificate_loop(self, entry: Certificate) -> Loop:
        webhooks = [(informer, names) for informer, names in self._webhook_configurations(entry) if names]
        informers = [self._secrets[entry], *(informer for informer, _ in webhooks)]
        loop = self._loop(entry.namespace, entry.secret, informers, lambda: self._reconcile_certificate(entry))
        self._secrets[entry].subscribe(_trigger(loop, [entry.secret]))
        for informer, names in webhooks:
            informer.subscribe(_trigger(loop, names))
        return loop

    def _webhook_configurations(self, entry: Certificate) -> Sequence[tuple[Informer, Sequence[str]]]:
        """Return the webhook configurations that use a certificate, by informer."""
        mutating, validating = self._webhooks
        return (
            (mutating, sorted(entry.mutating_webhook_configurations)),
            (validating, sorted(entry.validating_webhook_configurations)),
        )

    async def _reconcile_authority(self) -> datetime.datetime:
        async with self._authority_lock:
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
        if authority != self._current_authority:
            self._current_authority = authority
            for loop in self._certificate_loops:
                loop.changed.set()
        return authority.due()

    async def _reconcile_certificate(self, entry: Certificate) -> datetime.datetime:
        now = self._clock()
        if self._current_authority is not None and self._current_authority.due() <= now:
            # The authority's loop reports the error.
            with contextlib.suppress(ApiError, TransportError):
                await self._reconcile_authority()
        authority = self._current_authority
        if authority is None or not self._exists(entry.namespace):
            return now + _CHECK_AT_LEAST
        failure = await self._publish_bundle(entry, authority)
        informer = self._secrets[entry]
        stored = await self._stored(informer, entry.secret, entry.namespace)
        if not (failure and is_valid(stored, entry, authority, now=now)):
            basis = stored if stored is not None else self._unwritten.get(entry)
            data = certificate_data(basis, entry, authority, now=now, lifetime=self._lifetime)
            if not same_data(stored, data):
                if stored is None:
                    self._unwritten[entry] = secret(entry.secret, entry.namespace, data)
                mark = served(stored) or await self._restarted_before(entry, stored, data)
                stored = await self._write(informer, secret(entry.secret, entry.namespace, data, stored, served=mark))
                self._unwritten.pop(entry, None)
            expiry = pki.expires(data["tls.crt"]).timestamp()
            self._metrics.certificate_expiry.labels(f"{entry.namespace}/{entry.secret}").set(expiry)
        if entry.deployment and stored is not None:
            stored = await self._restart_pods(entry, stored)
        if failure is not None:
            raise failure
        return certificate_due(stored, entry, authority) or now

    async def _restarted_before(self, entry: Certificate, stored: Object | None, data: Mapping[str, bytes]) -> str:
        """Replace pods before their Secret is created: the new ones cannot start without it.

        Returns the fingerprint to record; empty if the pods have to be replaced after the Secret is written.
        """
        if not entry.deployment or stored is not None:
            return ""
        try:
            await self._restart(entry, data)
        except (ApiError, TransportError):
            return ""
        return fingerprint(data["tls.crt"])

    async def _restart_pods(self, entry: Certificate, stored: Object) -> Object:
        """Replace pods that read an earlier certificate when they started; return the Secret.

        The Secret records it afterwards, so it is repeated after a crash.
        """
        data = data_of(stored)
        mark = fingerprint(data["tls.crt"])
        if served(stored) == mark:
            return stored
        await self._restart(entry, data)
        body = secret(entry.secret, entry.namespace, data, stored, served=mark)
        return await self._write(self._secrets[entry], body)

    async def _restart(self, entry: Certificate, data: Mapping[str, bytes]) -> None:
        name, certificate = entry.deployment, data["tls.crt"]
        await restart_pods(self._client, name, entry.namespace, certificate, field_manager=_FIELD_MANAGER)

    async def _publish_bundle(self, entry: Certificate, authority: Authority) -> Exception | None:
        """Write the caBundle into each webhook configuration; return the last error."""
        failure: Exception | None = None
        for informer, names in self._webhook_configurations(entry):
            for name in names:
                try:
                    await self._patch_bundle(informer, name, authority)
                except (ApiError, TransportError) as error:
                    _LOG.warning("%s %s: caBundle not updated: %s", informer.resource.kind, name, error)
                    failure = error
        return failure

    async def _patch_bundle(self, informer: Informer, name: str, authority: Authority) -> None:
        stored = await self._stored(informer, name)
        operations = bundle_patch(stored, authority.bundle) if stored is not None else []
        if operations:
            resource = informer.resource
            informer.record_write(
                await self._client.json_patch(resource, name, operations, field_manager=_FIELD_MANAGER)
            )
            _LOG.info("%s %s: caBundle updated", resource.kind, name)

    async def _stored(self, informer: Informer, name: str, namespace: str = "") -> Object | None:
        """Return an object from the cache or, if its informer is not synced, from the API server."""
        if informer.synced:
            return informer.store.get(namespace, name)
        return await self._client.find(informer.resource, name, namespace=namespace or None)

    async def _write(self, informer: Informer, body: Object) -> Object:
        # Force only with the resourceVersion that was read. A Secret is created by apply, because only then do RBAC
        # rules apply to its name; a manager of this process makes it conflict with every existing Secret.
        exists = "resourceVersion" in body["metadata"]
        manager = _FIELD_MANAGER if exists else self._first_manager
        stored = await self._client.apply(SECRETS, body, field_manager=manager, force=exists)
        informer.record_write(stored)
        _LOG.info("Secret %s/%s written", body["metadata"]["namespace"], body["metadata"]["name"])
        return stored

    def _exists(self, namespace: str) -> bool:
        """Whether a namespace exists and is not being deleted; assumed if its informer is not synced."""
        informer = self._namespaces[namespace]
        if not informer.synced:
            return True
        body = informer.store.get("", namespace)
        return body is not None and not body["metadata"].get("deletionTimestamp")


def _trigger(loop: Loop, names: Container[str]) -> Callable[[StoreChange], None]:
    """Return a handler that triggers a loop when an object with one of the names changes."""

    def handler(change: StoreChange) -> None:
        if change.key[1] in names:
            loop.changed.set()

    return handler


def _informer_of(client: Client, resource: Resource, name: str, namespace: str | None = None) -> Informer:
    return Informer(client, resource, namespace=namespace, field_selector=f"metadata.name={name}")
