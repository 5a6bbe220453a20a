"""Health checks of processes."""

from __future__ import annotations

import http.client
import socket
import ssl
from dataclasses import dataclass
from pathlib import Path

from trainyard.local.cluster.host_address import HOST


@dataclass(frozen=True)
class Probe:
    """A health endpoint of this machine.

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
    proxy
        Unix socket of a proxy (HTTP CONNECT) in another network, in which the endpoint is; None: this machine's.
    address
        Its address in that network.
    host
        Its address on this machine.
    """

    port: int
    path: str
    authority: Path | None = None
    client: Path | None = None
    unverified_tls: bool = False
    proxy: Path | None = None
    address: str = HOST
    host: str = HOST


def probe(target: Probe, *, timeout: float = 3.0) -> str | None:
    """Return None if the endpoint reports healthy, else the reason."""
    connection: http.client.HTTPConnection
    context = None
    try:
        if target.unverified_tls:
            context = ssl._create_unverified_context()  # noqa: S323
        elif target.authority is not None:
            context = ssl.create_default_context(cafile=str(target.authority))
            if target.client is not None:
                context.load_cert_chain(target.client, target.client.with_suffix(".key"))
        if context is None:
            connection = http.client.HTTPConnection(target.host, target.port, timeout=timeout)
        else:
            connection = http.client.HTTPSConnection(target.host, target.port, timeout=timeout, context=context)
        if target.proxy is not None:
            made = _through(target.proxy, target.address, target.port, timeout)
            connection.sock = made if context is None else context.wrap_socket(made, server_hostname=target.host)
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


def _through(proxy: Path, address: str, port: int, timeout: float) -> socket.socket:
    """Return a connection that a proxy has made."""
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    made.settimeout(timeout)
    try:
        made.connect(str(proxy))
        made.sendall(f"CONNECT {address}:{port} HTTP/1.1\r\nHost: {address}:{port}\r\n\r\n".encode())
        answer = b""
        while not answer.endswith(b"\r\n\r\n"):
            received = made.recv(1)
            if not received:
                raise OSError(f"{proxy} closes the connection")
            answer += received
        status = answer.decode("latin-1").splitlines()[0]
        if " 200 " not in status:
            raise OSError(status.partition(" ")[2])
    except BaseException:
        made.close()
        raise
    return made


def check_health(target: Probe, *ports: int) -> str | None:
    """Return None if an endpoint is healthy and further ports, if given, accept connections; else the reason."""
    if why := probe(target):
        return why
    for port in ports:
        try:
            socket.create_connection((target.host, port), timeout=3.0).close()
        except OSError as error:
            return f"does not listen on port {port}: {error}"
    return None
