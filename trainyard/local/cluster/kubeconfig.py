"""Kubeconfig files, with a client certificate or with a token file."""

from __future__ import annotations

import base64
from pathlib import Path

import yaml

from trainyard.pki import KeyPair


def certificate_kubeconfig(
    name: str, server: str, authority: bytes, user: str, pair: KeyPair, *, server_name: str | None = None
) -> str:
    """Return a kubeconfig with an inline client certificate.

    Parameters
    ----------
    name
        Name of the cluster and the context.
    server
        URL of the API server.
    authority
        CA certificate of the API server, PEM.
    user
        Name of the user entry.
    pair
        Client certificate and key.
    server_name
        Name in the certificate of the API server; None: the host of its URL.
    """
    return _kubeconfig(
        name,
        server,
        authority,
        user,
        {"client-certificate-data": _encode(pair.certificate), "client-key-data": _encode(pair.key)},
        server_name,
    )


def token_kubeconfig(name: str, server: str, authority: bytes, user: str, token_file: Path) -> str:
    """Return a kubeconfig with a token file, which clients reread when the token is renewed."""
    return _kubeconfig(name, server, authority, user, {"tokenFile": str(token_file)})


def _kubeconfig(
    name: str,
    server: str,
    authority: bytes,
    user: str,
    credentials: dict[str, str],
    server_name: str | None = None,
) -> str:
    cluster = {"server": server, "certificate-authority-data": _encode(authority)}
    if server_name is not None:
        cluster["tls-server-name"] = server_name
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": user, "user": credentials}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": user}}],
    }
    return yaml.safe_dump(document, sort_keys=False)


def _encode(data: bytes) -> str:
    return base64.b64encode(data).decode()
