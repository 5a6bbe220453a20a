"""Address of a policy server, shared by servers and clients."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class OpaAddress:
    """Address and credentials of a policy server.

    Parameters
    ----------
    host, port
        Address.
    socket
        Unix socket to use instead; its file permissions authenticate both client and server.
    ca
        File with the certificate authority; None: plain HTTP on the local machine.
    token
        File with the bearer token; read again when the server rejects the token.
    revision
        Required revision of the bundle that decides; None: any.
    """

    host: str = "localhost"
    port: int = 8181
    socket: Path | None = None
    ca: Path | None = None
    token: Path | None = None
    revision: str | None = None
