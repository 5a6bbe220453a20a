"""Webhook certificates: one authority, one certificate per webhook server, and caBundles.

Pure functions from stored to desired state; `trainyard.controller.certificate_controller` does the I/O.
"""

from __future__ import annotations

import base64
import datetime
import hashlib
import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization

from trainyard import pki
from trainyard.controller.configuration import Certificate
from trainyard.kube.resource import Object, uid_of

_AUTHORITY_LIFETIME = datetime.timedelta(days=730)
PUBLICATION_DELAY = datetime.timedelta(minutes=1)
"""Delay between the publication of a new authority and its first signature: each API server watches caBundles."""
SERVED_ANNOTATION = "trainyard.dev/served-certificate"
"""Fingerprint of a certificate: on its Secret, of the one that all pods read; on a pod template, of the latest one."""
_CERTIFICATE, _KEY, _BUNDLE, _PREVIOUS = "tls.crt", "tls.key", "ca.crt", "previous.crt"


@dataclass(frozen=True)
class Authority:
    """The certificate authority, and its predecessor while certificates signed by it may be in use."""

    current: pki.KeyPair
    previous: bytes = b""

    @property
    def bundle(self) -> bytes:
        """CA bundle: the current authority, then the previous one."""
        return self.current.certificate + self.previous

    def due(self) -> datetime.datetime:
        """Return when the authority is due for renewal or its predecessor expires."""
        times = [pki.renewal_due(self.current.certificate)]
        if self.previous:
            times.append(pki.expires(self.previous))
        return min(times)

    def renewed(self, *, now: datetime.datetime) -> Authority:
        """Return the authority that should be in use now: its successor after two thirds of its lifetime."""
        previous = self.previous if self.previous and pki.expires(self.previous) > now else b""
        if now < pki.renewal_due(self.current.certificate):
            return Authority(self.current, previous)
        kept = self.current.certificate if pki.expires(self.current.certificate) > now else b""
        return Authority(_new_authority(now=now), kept)


def _new_authority(*, now: datetime.datetime) -> pki.KeyPair:
    """Create an authority for webhook certificates."""
    return pki.authority(f"trainyard-webhooks-{now:%Y%m%d%H%M%S}", now=now, lifetime=_AUTHORITY_LIFETIME)


def authority_of(stored: Object | None, *, now: datetime.datetime) -> Authority:
    """Return the desired authority: the stored one, its successor, or the first one.

    Parameters
    ----------
    stored
        Secret of the authority; None: missing.
    now
        Current time.
    """
    data = data_of(stored)
    pair = pki.KeyPair(data.get(_CERTIFICATE, b""), data.get(_KEY, b""))
    if not _is_pair(pair):
        return Authority(_new_authority(now=now))
    previous = data.get(_PREVIOUS, b"")
    return Authority(pair, previous if _parsed(previous) is not None else b"").renewed(now=now)


def authority_data(authority: Authority) -> dict[str, bytes]:
    """Return the data of the authority's Secret."""
    data = {_CERTIFICATE: authority.current.certificate, _KEY: authority.current.key, _BUNDLE: authority.bundle}
    return data | ({_PREVIOUS: authority.previous} if authority.previous else {})


def certificate_due(stored: Object | None, desired: Certificate, authority: Authority) -> datetime.datetime | None:
    """Return when a stored certificate is due for renewal; None if it must be issued now.

    Parameters
    ----------
    stored
        Secret of the certificate; None: missing.
    desired
        Desired certificate with its subject alternative names.
    authority
        Required issuer; certificates of its predecessor are accepted until the publication delay has passed.
    """
    data = data_of(stored)
    pair = pki.KeyPair(data.get(_CERTIFICATE, b""), data.get(_KEY, b""))
    certificate = _parsed(pair.certificate)
    if certificate is None or not _is_pair(pair) or _names(certificate) != _desired_names(desired):
        return None
    if _issued_by(certificate, authority.current.certificate):
        return pki.renewal_due(pair.certificate)
    if _issued_by(certificate, authority.previous):
        return min(pki.issued(authority.current.certificate) + PUBLICATION_DELAY, pki.expires(pair.certificate))
    return None


def certificate_data(
    stored: Object | None,
    desired: Certificate,
    authority: Authority,
    *,
    now: datetime.datetime,
    lifetime: datetime.timedelta,
) -> dict[str, bytes]:
    """Return the desired data of a Secret: the stored certificate if it is not due, or else a new one."""
    data = data_of(stored)
    due = certificate_due(stored, desired, authority)
    if due is not None and now < due:
        return {_CERTIFICATE: data[_CERTIFICATE], _KEY: data[_KEY], _BUNDLE: authority.bundle}
    names = [*desired.dns_names, *desired.ip_addresses, desired.secret]
    pair = pki.issue(
        authority.current,
        names[0],
        now=now,
        lifetime=lifetime,
        dns_names=desired.dns_names,
        ip_addresses=desired.ip_addresses,
        server=True,
    )
    return {_CERTIFICATE: pair.certificate, _KEY: pair.key, _BUNDLE: authority.bundle}


def is_valid(stored: Object | None, desired: Certificate, authority: Authority, *, now: datetime.datetime) -> bool:
    """Return whether the stored certificate is valid for its server: matching names, trusted, not expired."""
    trusted = certificate_due(stored, desired, authority) is not None
    return trusted and now < pki.expires(data_of(stored)[_CERTIFICATE])


def fingerprint(certificate: bytes) -> str:
    """Return a short digest of a certificate."""
    return hashlib.sha256(certificate).hexdigest()[:32]


def served(stored: Object | None) -> str:
    """Return the recorded fingerprint of the certificate that every pod reads; empty: unknown."""
    return str(((stored or {}).get("metadata", {}).get("annotations") or {}).get(SERVED_ANNOTATION, ""))


def restart_patch(certificate: bytes) -> dict[str, Any]:
    """Return the merge patch of a Deployment that replaces its pods once for a certificate."""
    return {"spec": {"template": {"metadata": {"annotations": {SERVED_ANNOTATION: fingerprint(certificate)}}}}}


def secret(
    name: str, namespace: str, data: Mapping[str, bytes], stored: Object | None = None, *, served: str = ""
) -> Object:
    """Return a Secret to apply, with the stored resourceVersion as precondition and the stored immutable type.

    Parameters
    ----------
    served
        Value of `SERVED_ANNOTATION`; empty: no annotation.
    """
    version = {"resourceVersion": stored["metadata"]["resourceVersion"]} if stored is not None else {}
    annotations = {"annotations": {SERVED_ANNOTATION: served}} if served else {}
    labels = {"app.kubernetes.io/managed-by": "trainyard"}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": namespace, "labels": labels, **annotations, **version},
        "type": (stored or {}).get("type") or "Opaque",
        "data": {key: base64.b64encode(value).decode() for key, value in sorted(data.items())},
    }


def same_data(stored: Object | None, data: Mapping[str, bytes]) -> bool:
    """Return whether the data of a Secret equals ``data``."""
    return stored is not None and data_of(stored) == dict(data)


def bundle_patch(configuration: Object, bundle: bytes) -> list[dict[str, Any]]:
    """Return the JSON patch that sets the caBundles of a webhook configuration; empty if they are up to date."""
    text = base64.b64encode(bundle).decode()
    operations: list[dict[str, Any]] = []
    for index, webhook in enumerate(configuration.get("webhooks") or ()):
        if webhook.get("clientConfig", {}).get("caBundle") == text:
            continue
        if not operations:
            operations.append({"op": "test", "path": "/metadata/uid", "value": uid_of(configuration)})
        at = f"/webhooks/{index}"
        operations.append({"op": "test", "path": f"{at}/name", "value": webhook["name"]})
        operations.append({"op": "add", "path": f"{at}/clientConfig/caBundle", "value": text})
    return operations


def data_of(stored: Object | None) -> dict[str, bytes]:
    """Return the data of a Secret; empty if there is none or it cannot be decoded."""
    held = (stored or {}).get("data") or {}
    try:
        return {key: base64.b64decode(value) for key, value in held.items()}
    except ValueError:
        return {}


def _parsed(certificate: bytes) -> x509.Certificate | None:
    try:
        return x509.load_pem_x509_certificate(certificate)
    except ValueError:
        return None


def _issued_by(certificate: x509.Certificate, authority: bytes) -> bool:
    issuer = _parsed(authority)
    if issuer is None:
        return False
    try:
        certificate.verify_directly_issued_by(issuer)
    except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm):
        return False
    return True


def _is_pair(pair: pki.KeyPair) -> bool:
    """Whether certificate and key are valid and match."""
    certificate = _parsed(pair.certificate)
    if certificate is None:
        return False
    try:
        key = serialization.load_pem_private_key(pair.key, None)
        return key.public_key() == certificate.public_key()
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return False


def _names(certificate: x509.Certificate) -> tuple[frozenset[str], frozenset[str]]:
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (x509.ExtensionNotFound, ValueError):
        return frozenset(), frozenset()
    addresses = frozenset(str(address) for address in found.get_values_for_type(x509.IPAddress))
    return frozenset(found.get_values_for_type(x509.DNSName)), addresses


def _desired_names(desired: Certificate) -> tuple[frozenset[str], frozenset[str]]:
    return frozenset(desired.dns_names), frozenset(str(ipaddress.ip_address(text)) for text in desired.ip_addresses)
