"""The leader's side of webhook certificates: makes, renews and announces them, to late webhook configurations too."""

from __future__ import annotations

import asyncio
import datetime
import logging
from collections.abc import Callable, Sequence

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
)
from trainyard.controller.configuration import Certificate, Configuration
from trainyard.controller.metrics import Metrics
from trainyard.controller.resources import (
    MUTATING_WEBHOOKS,
    NAMESPACES,
    SECRETS,
    VALIDATING_WEBHOOKS,
)
from trainyard.kube import ApiError, Backoff, Change, Client, Informer, Object, TransportError

__all__ = ["Issuer"]

_LOG = logging.getLogger(__name__)
_FIELD_MANAGER = "trainyard-controller"
_CHECK_AT_LEAST = datetime.timedelta(hours=1)


class Issuer:
    """Keeps certificate Secrets and caBundles as the configuration says.

    Everything is decided from what is stored, so it may be stopped between any two writes. Bundles go out before
    certificates, a minute before where an authority has a predecessor: an API server trusts a new authority before any
    webhook server uses it.

    Parameters
    ----------
    client
        Fenced API client.
    configuration
        Names the certificates.
    metrics
        Reports when certificates expire.
    clock
        Wall clock (UTC).
    backoff
        Waiting after failures.
    """

    def __init__(
        self,
        client: Client,
        configuration: Configuration,
        metrics: Metrics,
        *,
        clock: Callable[[], datetime.datetime] = lambda: datetime.datetime.now(datetime.UTC),
        backoff: Backoff | None = None,
    ) -> None:
        self._client = client
        self._configuration = configuration
        self._metrics = metrics
        self._clock = clock
        self._backoff = backoff or Backoff(0.2, 30.0)
        self._changed = asyncio.Event()
        self._namespaces = Informer(client, NAMESPACES)
        self._authority = _secret_informer(client, configuration.authority_secret, configuration.namespace)
        self._secrets = {
            entry: _secret_informer(client, entry.secret, entry.namespace) for entry in configuration.certificates
        }
        self._webhooks = (
            (
                Informer(client, MUTATING_WEBHOOKS),
                {n for c in configuration.certificates for n in c.mutating_webhook_configurations},
            ),
            (
                Informer(client, VALIDATING_WEBHOOKS),
                {n for c in configuration.certificates for n in c.validating_webhook_configurations},
            ),
        )
        for informer in self.informers:
            informer.subscribe(self._on_change)

    @property
    def informers(self) -> Sequence[Informer]:
        """What has to run beside it."""
        return (
            self._namespaces,
            self._authority,
            *self._secrets.values(),
            *(informer for informer, _ in self._webhooks),
        )

    async def run(self) -> None:
        """Work until cancelled."""
        if not self._configuration.certificates:
            return
        async with asyncio.TaskGroup() as group:
            for informer in self.informers:
                group.create_task(informer.run())
            group.create_task(self._work())

    async def _work(self) -> None:
        await asyncio.gather(*(informer.wait_synced() for informer in self.informers))
        while True:
            self._changed.clear()
            try:
                due = await self.step()
                self._backoff.reset()
                wait = min(due - self._clock(), _CHECK_AT_LEAST).total_seconds()
            except (ApiError, TransportError) as error:
                wait = self._backoff.next()
                _LOG.warning("webhook certificates: %s; again in %.1f s", error, wait)
            try:
                async with asyncio.timeout(max(wait, 0.05)):
                    await self._changed.wait()
            except TimeoutError:
                continue

    async def step(self) -> datetime.datetime:
        """Write what is missing; return when something will have to be renewed.

        Raises
        ------
        ApiError, TransportError
            If a write failed; call again.
        """
        settings, now = self._configuration, self._clock()
        if not self._exists(settings.namespace):
            return now + _CHECK_AT_LEAST
        authority = await self._keep_authority(now)
        for informer, names in self._webhooks:
            for name in sorted(names):
                await self._announce(informer, name, authority)
        due = [authority.due()]
        for entry in settings.certificates:
            if self._exists(entry.namespace):
                due.append(await self._keep_certificate(entry, authority, now))
        return min(due)

    async def _keep_authority(self, now: datetime.datetime) -> Authority:
        settings = self._configuration
        stored = self._authority.store.get(settings.namespace, settings.authority_secret)
        authority = authority_of(stored, now=now)
        data = authority_data(authority)
        if not same_data(stored, data):
            await self._write(self._authority, secret(settings.authority_secret, settings.namespace, data, stored))
        return authority

    async def _keep_certificate(
        self, entry: Certificate, authority: Authority, now: datetime.datetime
    ) -> datetime.datetime:
        informer = self._secrets[entry]
        stored = informer.store.get(entry.namespace, entry.secret)
        data = certificate_data(stored, entry, authority, now=now)
        if not same_data(stored, data):
            stored = await self._write(informer, secret(entry.secret, entry.namespace, data, stored))
        expiry = pki.expires(data["tls.crt"]).timestamp()
        self._metrics.certificate_expiry.labels(f"{entry.namespace}/{entry.secret}").set(expiry)
        return certificate_due(stored, entry, authority) or now

    async def _announce(self, informer: Informer, name: str, authority: Authority) -> None:
        stored = informer.store.get("", name)
        operations = bundle_patch(stored, authority.bundle) if stored is not None else []
        if operations:
            resource = informer.resource
            informer.fold(await self._client.json_patch(resource, name, operations, field_manager=_FIELD_MANAGER))
            _LOG.info("%s %s trusts the webhook authority", resource.kind, name)

    async def _write(self, informer: Informer, body: Object) -> Object:
        stored = await self._client.apply(SECRETS, body, field_manager=_FIELD_MANAGER)
        informer.fold(stored)
        _LOG.info("Secret %s/%s written", body["metadata"]["namespace"], body["metadata"]["name"])
        return stored

    def _exists(self, namespace: str) -> bool:
        body = self._namespaces.store.get("", namespace)
        return body is not None and not body["metadata"].get("deletionTimestamp")

    def _on_change(self, change: Change) -> None:
        self._changed.set()


def _secret_informer(client: Client, name: str, namespace: str) -> Informer:
    return Informer(client, SECRETS, namespace=namespace, field_selector=f"metadata.name={name}")
