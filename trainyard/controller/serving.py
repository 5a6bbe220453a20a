"""Serving certificate (all replicas): load it from the Secret, and reload it on change."""

from __future__ import annotations

import asyncio
import base64
import datetime
import logging
import os
import ssl
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from trainyard import pki
from trainyard.controller.configuration import WebhookClients
from trainyard.controller.webhook_clients import request_certificates
from trainyard.kube.client import Client
from trainyard.kube.informer import Informer
from trainyard.kube.kinds import SECRETS
from trainyard.kube.store import StoreChange

_LOG = logging.getLogger(__name__)


class ServingCertificate:
    """TLS contexts with the certificate of a Secret; new connections use a renewed certificate without a restart.

    Parameters
    ----------
    client
        API client.
    name, namespace
        The Secret, with keys tls.crt and tls.key.
    clients
        Certificates that the clients of webhooks are asked for; None: no client is asked for one.
    clock
        Wall clock (UTC).
    """

    def __init__(
        self,
        client: Client,
        *,
        name: str,
        namespace: str,
        clients: WebhookClients | None = None,
        clock: Callable[[], datetime.datetime] = lambda: datetime.datetime.now(datetime.UTC),
    ) -> None:
        self.context, self.webhook_context = _context(), _context()
        if clients is not None:
            request_certificates(self.webhook_context, clients)
        self.loaded = asyncio.Event()
        self.expires: datetime.datetime | None = None
        """Expiry time of the loaded certificate (UTC)."""
        self._clock = clock
        self.informer = Informer(client, SECRETS, namespace=namespace, field_selector=f"metadata.name={name}")
        self.informer.subscribe(self._on_change)

    def valid(self) -> bool:
        """Return whether the loaded certificate is valid now.

        An expired certificate means that the Secret was not renewed or could not be read. A restart would not help, so
        the replica keeps running, not ready, until the informer delivers a valid certificate.
        """
        return self.expires is not None and self._clock() < self.expires

    def expiry(self) -> float:
        """Return when the loaded certificate expires, in seconds since the epoch, or 0 if none is loaded."""
        return 0.0 if self.expires is None else self.expires.timestamp()

    def _on_change(self, change: StoreChange) -> None:
        if change.new is None:
            _LOG.warning("Secret %s/%s was deleted; its last certificate stays in use", *change.key)
            return
        data = change.new.get("data") or {}
        try:
            chain = b"\n".join(base64.b64decode(data[key]) for key in ("tls.crt", "tls.key"))
            with _file(chain) as path:
                ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(path)
                for context in (self.context, self.webhook_context):
                    context.load_cert_chain(path)
            self.expires = pki.expires(base64.b64decode(data["tls.crt"]))
        except (KeyError, ValueError, OSError) as error:
            _LOG.warning("Secret %s/%s has no valid certificate: %r", *change.key, error)
            return
        self.loaded.set()
        _LOG.info("serving with the certificate of Secret %s/%s", *change.key)


def _context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


@contextmanager
def _file(content: bytes) -> Iterator[str]:
    """Provide secret content as a temporary file, in memory if the system supports it."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("certificate", os.MFD_CLOEXEC)
        try:
            os.write(descriptor, content)
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "certificate"
        path.touch(mode=0o600)
        path.write_bytes(content)
        yield str(path)
