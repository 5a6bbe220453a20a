"""X.509 certificate authorities and leaf certificates with ECDSA P-256 keys; no I/O."""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_BACKDATED = datetime.timedelta(minutes=5)
"""notBefore lies this long before the issuance, to tolerate clock skew."""


@dataclass(frozen=True)
class KeyPair:
    """A certificate and its private key, both PEM."""

    certificate: bytes
    key: bytes

    def __repr__(self) -> str:
        return "KeyPair(certificate=…, key=…)"


def authority(common_name: str, *, now: datetime.datetime, lifetime: datetime.timedelta) -> KeyPair:
    """Create a self-signed certificate authority that may sign only leaf certificates."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
    builder = (
        _builder(subject, subject, key.public_key(), now, lifetime)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(key_cert_sign=True, crl_sign=True), critical=True)
    )
    return KeyPair(builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM), _pem(key))


def issue(
    ca: KeyPair,
    common_name: str,
    *,
    now: datetime.datetime,
    lifetime: datetime.timedelta,
    organizations: Sequence[str] = (),
    dns_names: Sequence[str] = (),
    ip_addresses: Sequence[str] = (),
    server: bool = False,
    client: bool = False,
) -> KeyPair:
    """Issue a leaf certificate.

    Parameters
    ----------
    ca
        The signing authority.
    common_name, organizations
        The subject; Kubernetes reads them as user and groups.
    dns_names, ip_addresses
        Subject alternative names of a server.
    server, client
        Extended key usages.
    """
    issuer_key = serialization.load_pem_private_key(ca.key, None)
    if not isinstance(issuer_key, ec.EllipticCurvePrivateKey):
        raise TypeError("the authority's key is not an elliptic-curve key")
    issuer = x509.load_pem_x509_certificate(ca.certificate)
    key = ec.generate_private_key(ec.SECP256R1())
    usages = [
        usage
        for enabled, usage in ((server, ExtendedKeyUsageOID.SERVER_AUTH), (client, ExtendedKeyUsageOID.CLIENT_AUTH))
        if enabled
    ]
    builder = (
        _builder(_subject(common_name, organizations), issuer.subject, key.public_key(), now, lifetime)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(digital_signature=True), critical=True)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()), critical=False)
    )
    if usages:
        builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
    alternatives: list[x509.GeneralName] = [x509.DNSName(name) for name in dns_names]
    alternatives += [x509.IPAddress(ipaddress.ip_address(address)) for address in ip_addresses]
    if alternatives:
        builder = builder.add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
    return KeyPair(builder.sign(issuer_key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM), _pem(key))


def expires(certificate: bytes) -> datetime.datetime:
    """Return when the first certificate of a PEM bundle expires (UTC)."""
    return x509.load_pem_x509_certificate(certificate).not_valid_after_utc


def issued(certificate: bytes) -> datetime.datetime:
    """Return when a certificate of this module was issued (UTC)."""
    return x509.load_pem_x509_certificate(certificate).not_valid_before_utc + _BACKDATED


def renewal_due(certificate: bytes) -> datetime.datetime:
    """Return when a certificate of this module is due for renewal: after two thirds of its lifetime (UTC)."""
    start = issued(certificate)
    return start + (expires(certificate) - start) * 2 / 3


def _subject(common_name: str, organizations: Sequence[str]) -> x509.Name:
    names = [
        *(x509.NameAttribute(NameOID.ORGANIZATION_NAME, o) for o in organizations),
        x509.NameAttribute(NameOID.COMMON_NAME, common_name[:64]),
    ]
    return x509.Name(names)


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    now: datetime.datetime,
    lifetime: datetime.timedelta,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _BACKDATED)
        .not_valid_after(now + lifetime)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _usage(*, digital_signature: bool = False, key_cert_sign: bool = False, crl_sign: bool = False) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=digital_signature,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=key_cert_sign,
        crl_sign=crl_sign,
        encipher_only=False,
        decipher_only=False,
    )


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
