"""Keys and certificates of an embedded control plane: authorities, and a key pair for each server and client."""

from __future__ import annotations

import datetime
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from trainyard import pki
from trainyard.local.cluster.folders import private_folder, write_private
from trainyard.local.cluster.host_address import ADDRESSES

_AUTHORITY_LIFETIME = datetime.timedelta(days=3650)
_LEAF_LIFETIME = datetime.timedelta(days=365)
_CLUSTER_CA, _ETCD_CA = "ca", "etcd-ca"
WEBHOOK_CLIENT_AUTHORITY: Final = "webhook-client-ca"
"""Of its own: certificates of the cluster's authority are also those of users."""
WEBHOOK_CLIENT: Final = "webhook-client"
"""Certificate that the API server shows to webhooks; also its common name."""
_AUTHORITIES = (_CLUSTER_CA, _ETCD_CA, WEBHOOK_CLIENT_AUTHORITY)


_HOSTS = tuple(each.host for each in ADDRESSES.values())


@dataclass(frozen=True)
class _Leaf:
    file: str
    authority: str
    common_name: str
    organizations: tuple[str, ...] = ()
    dns_names: tuple[str, ...] = ()
    ip_addresses: tuple[str, ...] = ()
    server: bool = False
    client: bool = True


_LEAVES = (
    _Leaf("etcd-server", _ETCD_CA, "etcd", ("trainyard",), ("localhost",), _HOSTS, True),
    _Leaf("etcd-client", _ETCD_CA, "kube-apiserver", ("trainyard",)),
    _Leaf(
        "kube-apiserver",
        _CLUSTER_CA,
        "kube-apiserver",
        (),
        (
            "localhost",
            "kubernetes",
            "kubernetes.default",
            "kubernetes.default.svc",
            "kubernetes.default.svc.cluster.local",
        ),
        (*_HOSTS, *(each.api_service for each in ADDRESSES.values())),
        True,
        False,
    ),
    _Leaf("kubelet-client", _CLUSTER_CA, "kube-apiserver-kubelet-client", ("kubeadm:cluster-admins",)),
    _Leaf(
        "kube-controller-manager-server",
        _CLUSTER_CA,
        "kube-controller-manager",
        (),
        ("localhost",),
        _HOSTS,
        True,
        False,
    ),
    _Leaf("kube-scheduler-server", _CLUSTER_CA, "kube-scheduler", (), ("localhost",), _HOSTS, True, False),
    _Leaf(WEBHOOK_CLIENT, WEBHOOK_CLIENT_AUTHORITY, WEBHOOK_CLIENT),
    _Leaf("admin", _CLUSTER_CA, "trainyard:admin", ("system:masters",)),
    _Leaf("kube-controller-manager", _CLUSTER_CA, "system:kube-controller-manager"),
    _Leaf("kube-scheduler", _CLUSTER_CA, "system:kube-scheduler"),
    _Leaf("kwok", _CLUSTER_CA, "trainyard:kwok"),
    _Leaf("supervisor", _CLUSTER_CA, "trainyard:supervisor"),
)


def ensure_certificates(folder: Path, now: datetime.datetime) -> None:
    """Issue missing certificates and renew those that are due; authorities and service-account keys are kept.

    The first set is written to a temporary folder and moved into place, so that an interrupted start leaves no partial
    set.
    """
    if not (folder / f"{_CLUSTER_CA}.key").is_file() or not (folder / "service-account.key").is_file():
        fresh = folder.with_name(f".{folder.name}.new")
        shutil.rmtree(fresh, ignore_errors=True)
        shutil.rmtree(folder, ignore_errors=True)
        private_folder(fresh)
        for authority in _AUTHORITIES:
            _found(fresh, authority, now)
        _service_account_keys(fresh)
        for leaf in _LEAVES:
            _issue(fresh, leaf, now)
        fresh.rename(folder)
        return
    if not (folder / f"{WEBHOOK_CLIENT_AUTHORITY}.crt").is_file():  # a cluster of an earlier version
        _found(folder, WEBHOOK_CLIENT_AUTHORITY, now)
    for leaf in _LEAVES:
        certificate = folder / f"{leaf.file}.crt"
        if (
            not (certificate.is_file() and (folder / f"{leaf.file}.key").is_file())
            or pki.renewal_due(certificate.read_bytes()) <= now
        ):
            _issue(folder, leaf, now)


def read_pair(folder: Path, name: str) -> pki.KeyPair:
    """Read a certificate and its key."""
    return pki.KeyPair((folder / f"{name}.crt").read_bytes(), (folder / f"{name}.key").read_bytes())


def _issue(folder: Path, leaf: _Leaf, now: datetime.datetime) -> None:
    pair = pki.issue(
        read_pair(folder, leaf.authority),
        leaf.common_name,
        now=now,
        lifetime=_LEAF_LIFETIME,
        organizations=leaf.organizations,
        dns_names=leaf.dns_names,
        ip_addresses=leaf.ip_addresses,
        server=leaf.server,
        client=leaf.client,
    )
    _write(folder, leaf.file, pair)


def _found(folder: Path, authority: str, now: datetime.datetime) -> None:
    _write(folder, authority, pki.authority(f"trainyard {authority}", now=now, lifetime=_AUTHORITY_LIFETIME))


def _write(folder: Path, name: str, pair: pki.KeyPair) -> None:
    write_private(folder / f"{name}.key", pair.key)
    write_private(folder / f"{name}.crt", pair.certificate)


def _service_account_keys(folder: Path) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    public = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    write_private(folder / "service-account.key", private)
    write_private(folder / "service-account.pub", public)
