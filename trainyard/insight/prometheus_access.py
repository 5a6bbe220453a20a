"""Address, token and certificate authority of a Prometheus."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from trainyard.errors import TrainyardError
from trainyard.manifests.files import read_text

_LOCAL: Final = frozenset({"localhost", "127.0.0.1", "::1"})


@dataclass(frozen=True)
class PrometheusAccess:
    """How a Prometheus is reached.

    Parameters
    ----------
    url
        Its address, with the prefix of its paths.
    token
        Bearer token; empty: none is sent.
    tls
        Trust in its certificate; None: the authorities of this machine.
    """

    url: str
    token: str = ""
    tls: ssl.SSLContext | None = None

    def __repr__(self) -> str:
        return "PrometheusAccess(…)"


def prometheus_access(url: str, token_file: Path | None, ca_file: Path | None) -> PrometheusAccess:
    """Return how a Prometheus is reached.

    Parameters
    ----------
    url
        Its address.
    token_file
        File with a bearer token.
    ca_file
        File with the certificates of its authorities (PEM).

    Raises
    ------
    TrainyardError
        A file cannot be used, or the token would be sent without encryption.
    """
    token = ""
    if token_file is not None:
        token = read_text(token_file).strip()
        if not token or not token.isascii() or not token.isprintable() or " " in token:
            raise TrainyardError(
                f"{token_file} contains no token", fix="write one token, without spaces, into the file"
            )
        parts = urlsplit(url)
        if parts.scheme != "https" and parts.hostname not in _LOCAL:
            raise TrainyardError(
                "A token is only sent over https, or to this machine",
                fix="use the https address, or `kubectl port-forward`",
            )
    tls = None
    if ca_file is not None:
        try:
            tls = ssl.create_default_context(cadata=read_text(ca_file))
        except (ssl.SSLError, ValueError) as error:
            raise TrainyardError(
                f"{ca_file} contains no certificate", fix="write the authority's certificate (PEM) into the file"
            ) from error
    return PrometheusAccess(url, token, tls)
