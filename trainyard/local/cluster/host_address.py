"""Addresses of a cluster on this machine, by address family."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

HOST = "127.0.0.1"


class IpFamily(StrEnum):
    """Address family of a control plane on this machine."""

    IPV4 = "ipv4"
    IPV6 = "ipv6"


DEFAULT_FAMILY: Final = IpFamily.IPV4


@dataclass(frozen=True)
class Addresses:
    """Addresses of one family.

    Parameters
    ----------
    host
        Loopback address, on which all processes listen.
    services, api_service
        Range of Services, and the address of the API server's.
    pods, node
        Range of simulated pods, and the address of simulated nodes.
    """

    host: str
    services: str
    api_service: str
    pods: str
    node: str


ADDRESSES: Final[Mapping[IpFamily, Addresses]] = {
    IpFamily.IPV4: Addresses(HOST, "10.96.0.0/16", "10.96.0.1", "10.244.0.0/16", "10.0.0.1"),
    IpFamily.IPV6: Addresses("::1", "fd00:10:96::/112", "fd00:10:96::1", "fd00:10:244::/64", "fd00::1"),
}
