"""Blocks of addresses of NetworkPolicies as matches of nftables; pure."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from typing import Any

_MAPPED = ipaddress.ip_network("::ffff:0:0/96")
_ZEROS = re.compile(r"(?<![\w:.])0+(?=\d+\.)|(?<=\.)0+(?=\d)")
"""Leading zeros, which the API server accepts in decimal numbers."""


def block_match(block: Mapping[str, Any], side: str) -> str | None:
    """Return the match of a block without its exceptions; None for addresses of version 6, which pods do not have.

    Parameters
    ----------
    block
        The ``ipBlock``.
    side
        Field of the packet: ``saddr`` or ``daddr``.
    """
    network = _network(block["cidr"])
    if network is None:
        return None
    excluded = [found for each in block.get("except") or () if (found := _network(each)) is not None]
    parts = [] if network.prefixlen == 0 else [f"ip {side} {network}"]
    if excluded:
        parts.append(f"ip {side} != {{ {', '.join(map(str, ipaddress.collapse_addresses(excluded)))} }}")
    return " ".join(parts)


def _network(text: str) -> ipaddress.IPv4Network | None:
    network = ipaddress.ip_network(_ZEROS.sub("", text), strict=False)
    if isinstance(network, ipaddress.IPv4Network):
        return network
    mapped = network.network_address.ipv4_mapped
    if mapped is None or network.prefixlen < _MAPPED.prefixlen:
        return None
    return ipaddress.IPv4Network((mapped, network.prefixlen - _MAPPED.prefixlen), strict=False)
