"""Health checks of processes."""

from __future__ import annotations

import http.client
import socket
import ssl
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Probe", "check_health", "probe"]


@dataclass(frozen=True)
class Probe:
    """A health endpoint on 127.0.0.1.

    Parameters
    ----------
    port, path
        Its port and path.
    authority
        CA certificate file of the server; None for plain HTTP.
    client
        Client certificate file; its key is in the same folder with suffix ``.key``.
    unverified_tls
        Use HTTPS without verifying the certificate, as a kubelet's probes do.
    """

    port: int
    path: str
    authority: Path | None = None
    client: Path | None = None
    unverified_tls: bool = False


def probe(target: Probe, *, timeout: float = 3.0) -> str | None:
    """Return None if the endpoint reports healthy, else the reason."""
    connection: http.client.HTTPConnection
    try:
        if target.unverified_tls:
            anything = ssl._create_unverified_context()  # noqa: S323
            connection = http.client.HTTPSConnection("127.0.0.1", target.port, timeout=timeout, context=anything)
        elif target.authority is None:
            connection = http.client.HTTPConnection("127.0.0.1", target.port, timeout=timeout)
        else:
            context = ssl.create_default_context(cafile=str(target.authority))
            if target.client is not None:
                context.load_cert_chain(target.client, target.client.with_suffix(".key"))
            connection = http.client.HTTPSConnection("127.0.0.1", target.port, timeout=timeout, context=context)
        try:
            connection.request("GET", target.path)
            response = connection.getresponse()
            body = response.read(2000).decode(errors="replace")
        finally:
            connection.close()
    except (OSError, http.client.HTTPException) as error:
        return f"does not answer on port {target.port}: {error}"
    if response.status == 200:
        return None
    failed = [line for line in body.splitlines() if line.startswith("[-]")] or body.splitlines()[:1]
    return f"answers {response.status} on {target.path}: {'; '.join(failed)}"


def check_health(target: Probe, *ports: int) -> str | None:
    """Return None if an endpoint is healthy and further ports, if given, accept connections; else the reason."""
    if why := probe(target):
        return why
    for port in ports:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=3.0).close()
        except OSError as error:
            return f"does not listen on port {port}: {error}"
    return None
