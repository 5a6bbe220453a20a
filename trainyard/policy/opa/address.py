"""Address of a policy server, shared by those that start one and those that ask one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

__all__ = ["OpaAddress"]


@dataclass(frozen=True)
class OpaAddress:
    """Where a server is and how to be let in.

    Parameters
    ----------
    host, port
        Address.
    socket
        Unix socket instead: who can reach it is let in, and nobody else can stand in for the server.
    ca
        File with the certificate authority; plain HTTP on the own machine where it is None.
    token
        File with the bearer token; it is read again when the server refuses it.
    revision
        Revision of the bundle the answers must come from; any where it is None.
    """

    host: str = "localhost"
    port: int = 8181
    socket: Path | None = None
    ca: Path | None = None
    token: Path | None = None
    revision: str | None = None
