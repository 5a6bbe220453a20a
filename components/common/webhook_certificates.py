"""Webhook certificates, which the trainer controller's leader issues."""

from __future__ import annotations

from collections.abc import Iterable

from trainyard.controller.configuration import Certificate

from .target import Target


def certificate(
    secret: str,
    namespace_name: str,
    service_name: str,
    target: Target,
    *,
    deployment: str = "",
    names: Iterable[str] = (),
    mutating: Iterable[str] = (),
    validating: Iterable[str] = (),
) -> Certificate:
    """Return the certificate of one webhook server.

    Parameters
    ----------
    secret, namespace_name
        Secret that the leader writes.
    service_name
        Service of the server; its DNS names are in the certificate.
    target
        The cluster; if webhooks are called by URL, its address is in the certificate too.
    deployment
        Deployment whose pods read the certificate only when they start; the leader replaces them after a renewal.
    names
        Further DNS names.
    mutating, validating
        Webhook configurations whose caBundle the leader writes.
    """
    host = f"{service_name}.{namespace_name}.svc"
    return Certificate(
        secret=secret,
        namespace=namespace_name,
        dns_names=(host, f"{host}.cluster.local", *names),
        ip_addresses=() if target.access.webhook_ports is None else (target.access.webhook_address,),
        deployment=deployment,
        mutating_webhook_configurations=tuple(sorted(mutating)),
        validating_webhook_configurations=tuple(sorted(validating)),
    )
