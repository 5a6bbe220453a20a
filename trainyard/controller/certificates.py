"""Webhook certificates: one authority, one certificate per webhook server, and caBundles.

Pure: what should be, given what is stored. `trainyard.controller.certificate_controller` writes it.
"""

from __future__ import annotations

import base64
import datetime
import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization

from trainyard import pki
from trainyard.controller.configuration import Certificate
from trainyard.kube import Object, uid_of

__all__ = [
    "AUTHORITY_LIFETIME",
    "CERTIFICATE_LIFETIME",
    "SETTLING",
    "Authority",
    "authority_data",
    "authority_of",
    "bundle_patch",
    "certificate_data",
    "certificate_due",
    "new_authority",
    "same_data",
    "secret",
    "serves",
]

AUTHORITY_LIFETIME = datetime.timedelta(days=730)
CERTIFICATE_LIFETIME = datetime.timedelta(days=90)
SETTLING = datetime.timedelta(minutes=1)
"""How long a new authority is announced before it signs: every API server learns of it by a watch of its own."""
_CERTIFICATE, _KEY, _BUNDLE, _PREVIOUS = "tls.crt", "tls.key", "ca.crt", "previous.crt"


@dataclass(frozen=True)
class Authority:
    """The certificate authority and its predecessor, for as long as a certificate of it may be in use."""

    current: pki.KeyPair
    previous: bytes = b""

    @property
    def bundle(self) -> bytes:
        """Whom to trust: the current authority, then the previous one."""
        return self.current.certificate + self.previous

    def due(self) -> datetime.datetime:
        """Return when something about the authority has to change."""
        times = [pki.renewal_due(self.current.certificate)]
        if self.previous:
            times.append(pki.expires(self.previous))
        return min(times)

    def renewed(self, *, now: datetime.datetime) -> Authority:
        """Return what the authority should be now: itself, or its successor after two thirds of its life."""
        previous = self.previous if self.previous and pki.expires(self.previous) > now else b""
        if now < pki.renewal_due(self.current.certificate):
            return Authority(self.current, previous)
        kept = self.current.certificate if pki.expires(self.current.certificate) > now else b""
        return Authority(new_authority(now=now), kept)


def new_authority(*, now: datetime.datetime) -> pki.KeyPair:
    """Make an authority of webhook certificates."""
    return pki.authority(f"trainyard-webhooks-{now:%Y%m%d%H%M%S}", now=now, lifetime=AUTHORITY_LIFETIME)


def authority_of(stored: Object | None, *, now: datetime.datetime) -> Authority:
    """Return the authority that should be: the stored one, its successor, or a first one.

    Parameters
    ----------
    stored
        The authority's Secret, None where there is none.
    now
        The time.
    """
    data = _data(stored)
    pair = pki.KeyPair(data.get(_CERTIFICATE, b""), data.get(_KEY, b""))
    if not _usable(pair):
        return Authority(new_authority(now=now))
    previous = data.get(_PREVIOUS, b"")
    return Authority(pair, previous if _parsed(previous) is not None else b"").renewed(now=now)


def authority_data(authority: Authority) -> dict[str, bytes]:
    """Return the contents of the authority's Secret."""
    data = {_CERTIFICATE: authority.current.certificate, _KEY: authority.current.key, _BUNDLE: authority.bundle}
    return data | ({_PREVIOUS: authority.previous} if authority.previous else {})


def certificate_due(stored: Object | None, wanted: Certificate, authority: Authority) -> datetime.datetime | None:
    """Return when a stored certificate is to be renewed, None where it must be made at once.

    Parameters
    ----------
    stored
        Its Secret, None where there is none.
    wanted
        Names it has to be for.
    authority
        Who has to have signed it; what its predecessor signed will do until the new one has settled.
    """
    data = _data(stored)
    pair = pki.KeyPair(data.get(_CERTIFICATE, b""), data.get(_KEY, b""))
    certificate = _parsed(pair.certificate)
    if certificate is None or not _usable(pair) or _names(certificate) != _wanted_names(wanted):
        return None
    if _issued_by(certificate, authority.current.certificate):
        return pki.renewal_due(pair.certificate)
    if _issued_by(certificate, authority.previous):
        return min(pki.issued(authority.current.certificate) + SETTLING, pki.expires(pair.certificate))
    return None


def certificate_data(
    stored: Object | None, wanted: Certificate, authority: Authority, *, now: datetime.datetime
) -> dict[str, bytes]:
    """Return what a Secret should hold: the stored certificate while it will do, else a new one."""
    data = _data(stored)
    due = certificate_due(stored, wanted, authority)
    if due is not None and now < due:
        return {_CERTIFICATE: data[_CERTIFICATE], _KEY: data[_KEY], _BUNDLE: authority.bundle}
    names = [*wanted.dns_names, *wanted.ip_addresses, wanted.secret]
    pair = pki.issue(
        authority.current,
        names[0],
        now=now,
        lifetime=CERTIFICATE_LIFETIME,
        dns_names=wanted.dns_names,
        ip_addresses=wanted.ip_addresses,
        server=True,
    )
    return {_CERTIFICATE: pair.certificate, _KEY: pair.key, _BUNDLE: authority.bundle}


def serves(stored: Object | None, wanted: Certificate, authority: Authority, *, now: datetime.datetime) -> bool:
    """Return whether the stored certificate is still good for its server: for its names, trusted and not expired."""
    good = certificate_due(stored, wanted, authority) is not None
    return good and now < pki.expires(_data(stored)[_CERTIFICATE])


def secret(name: str, namespace: str, data: Mapping[str, bytes], stored: Object | None = None) -> Object:
    """Return a Secret to apply: over the version that is stored, whose type cannot change and is kept."""
    version = {"resourceVersion": stored["metadata"]["resourceVersion"]} if stored is not None else {}
    labels = {"app.kubernetes.io/managed-by": "trainyard"}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": namespace, "labels": labels, **version},
        "type": (stored or {}).get("type") or "Opaque",
        "data": {key: base64.b64encode(value).decode() for key, value in sorted(data.items())},
    }


def same_data(stored: Object | None, data: Mapping[str, bytes]) -> bool:
    """Return whether a Secret holds exactly this."""
    return stored is not None and _data(stored) == dict(data)


def bundle_patch(configuration: Object, bundle: bytes) -> list[dict[str, Any]]:
    """Return the JSON patch that makes a webhook configuration trust a bundle; empty where it does."""
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


def _data(stored: Object | None) -> dict[str, bytes]:
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


def _usable(pair: pki.KeyPair) -> bool:
    """Whether certificate and key can be read and belong together."""
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


def _wanted_names(wanted: Certificate) -> tuple[frozenset[str], frozenset[str]]:
    return frozenset(wanted.dns_names), frozenset(str(ipaddress.ip_address(text)) for text in wanted.ip_addresses)
