"""Addresses of servers: listening sockets for both families, and hosts in URLs."""

from __future__ import annotations

import contextlib
import errno
import ipaddress
import socket

ANY_ADDRESS = ""
"""Every address of both families; of IPv4 alone where the machine has no IPv6."""
_BOTH = (ANY_ADDRESS, "::")
_NO_IPV6 = (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL, errno.EPROTONOSUPPORT)


def bound_socket(host: str, port: int) -> socket.socket:
    """Return a bound socket that does not listen yet.

    Parameters
    ----------
    host
        An address of either family, or a name of this machine; empty or ``::``: `ANY_ADDRESS`.
    port
        Port; 0: a free one.

    Raises
    ------
    OSError, OverflowError
        The machine does not have the address, or the port is taken or no port.
    """
    try:
        return _bound("::" if host in _BOTH else host, port)
    except OSError as error:
        if host not in _BOTH or error.errno not in _NO_IPV6:
            raise
        return _bound("0.0.0.0", port)  # noqa: S104


def _bound(host: str, port: int) -> socket.socket:
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    made = socket.socket(family, kind, protocol)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            with contextlib.suppress(OSError):  # a system without IPv4
                made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        made.bind(address)
    except BaseException:
        made.close()
        raise
    return made


def url_host(host: str) -> str:
    """Return a host as URLs contain it: an IPv6 address is in brackets."""
    return f"[{host}]" if ":" in host and not host.startswith("[") else host


def has_address(host: str) -> bool:
    """Return whether a server of this machine could listen on an address."""
    try:
        _bound(host, 0).close()
    except OSError:
        return False
    return True


def client_key(address: str) -> str:
    """Return what stands for a client in limits by address.

    One machine has a whole /64 of IPv6; an address of IPv4 looks the same to a socket of one family and of both.
    """
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv4Address):
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.IPv6Network((parsed, 64), strict=False))
