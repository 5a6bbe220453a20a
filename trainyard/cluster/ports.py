"""Ports of a cluster on 127.0.0.1: chosen once, kept for the cluster's life, never shared with another cluster."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path

import psutil

from trainyard.problem import TrainyardError

__all__ = [
    "HOST",
    "PORT_NAMES",
    "SLOTS",
    "allocate",
    "holder",
    "is_free",
    "refuse_taken",
    "reserved_by_others",
    "slot_name",
    "slot_ports",
    "taken",
]

HOST = "127.0.0.1"

SLOTS = 6
"""Replicas of one Deployment that can run at the same time: the five that settings allow, and one of a roll-out."""

_REPLICA_USES = (
    "vc-scheduler/health",
    "vc-scheduler/metrics",
    "vc-controller-manager/health",
    "vc-controller-manager/metrics",
    "vc-webhook-manager/webhook",
    "vc-webhook-manager/health",
    "jobset/webhook",
    "jobset/health",
    "trainyard-controller/webhook",
    "trainyard-controller/health",
    "trainyard-controller/metrics",
    "opa/health",
)


def slot_name(program: str, slot: int) -> str:
    """Return what a replica's files are called: the first slot has the program's own name."""
    return f"{program}.{slot}" if slot else program


PORT_NAMES = (
    "etcd/client",
    "etcd/peer",
    "kube-apiserver/secure",
    "kube-controller-manager/secure",
    "kube-scheduler/secure",
    "kwok/server",
    "vc-webhook-manager/webhook",
    "jobset/webhook",
    "trainyard-controller/webhook",
    *(f"{slot}.{use}" for slot in range(SLOTS) for use in _REPLICA_USES),
)
"""Every use of a port: ``<program>/<use>``, and ``<slot>.<program>/<use>`` of a replica.

The port of a program's webhooks is the one in their URL; it is forwarded to the ports of the ready replicas.
"""


def slot_ports(ports: Mapping[str, int], slot: int) -> dict[str, int]:
    """Return the ports of the replicas in one slot by ``<program>/<use>``."""
    prefix = f"{slot}."
    return {use.removeprefix(prefix): port for use, port in ports.items() if use.startswith(prefix)}


_LOOKS, _PAUSE = 6, 0.5

_FIRST, _LAST = 20000, 31999
"""Below the ephemeral ports, so that no outgoing connection takes one while the cluster is stopped."""


def allocate(seed: str, known: Mapping[str, int], reserved: Iterable[int]) -> dict[str, int]:
    """Return a port for every use, keeping those a cluster has.

    Parameters
    ----------
    seed
        Text that decides where the search starts, for instance the cluster's folder, so that clusters of different
        names, users and state folders rarely meet.
    known
        Ports that the cluster has already.
    reserved
        Ports of other clusters, running or not.
    """
    ports = {use: known[use] for use in PORT_NAMES if use in known}
    refused = {*reserved, *ports.values()}
    span = _LAST - _FIRST + 1
    start = zlib.crc32(seed.encode()) % span
    candidates = (_FIRST + (start + step) % span for step in range(span))
    for use in PORT_NAMES:
        if use in ports:
            continue
        port = next((port for port in candidates if port not in refused and is_free(port)), None)
        if port is None:
            raise TrainyardError(
                f"No port between {_FIRST} and {_LAST} is free on {HOST}", fix="stop programs that listen there"
            )
        ports[use] = port
    return ports


def reserved_by_others(clusters: Path, name: str) -> set[int]:
    """Return the ports of every other cluster below a folder."""
    ports: set[int] = set()
    for file in clusters.glob("*/cluster.json"):
        if file.parent.name == name:
            continue
        with contextlib.suppress(OSError, ValueError, AttributeError, TypeError):
            ports.update(int(port) for port in json.loads(file.read_bytes()).get("ports", {}).values())
    return ports


def is_free(port: int) -> bool:
    """Tell whether a server could listen on a port of this machine's loopback address."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def holder(port: int) -> str | None:
    """Return who listens on a port ("python3, pid 42"), or None where the system does not tell."""
    with contextlib.suppress(psutil.Error, OSError):
        for connection in psutil.net_connections("tcp"):
            local = connection.laddr
            if connection.status == psutil.CONN_LISTEN and connection.pid and local and local.port == port:
                return f"{psutil.Process(connection.pid).name()}, pid {connection.pid}"
    return None


async def taken(ports: Mapping[str, int]) -> str | None:
    """Return which port is taken and by whom, None if all are free; a holder gets a while to go away."""
    for use, port in ports.items():
        for _ in range(_LOOKS):
            if is_free(port):
                break
            await asyncio.sleep(_PAUSE)
        else:
            return f"port {port} of {HOST} ({use}) is taken by {holder(port) or 'another program'}"
    return None


def refuse_taken(ports: Mapping[str, int], cluster: str) -> None:
    """Refuse to start on ports that something else listens on.

    Raises
    ------
    TrainyardError
        A port is taken; the message names it and, if known, the process.
    """
    for use, port in ports.items():
        if not is_free(port):
            who = holder(port)
            raise TrainyardError(
                f"Port {port} of {HOST}, which cluster {cluster} needs for {use}, is taken"
                + (f" by {who}" if who else ""),
                fix=f"stop that program, or remove the cluster with `trainyard cluster down --delete --name {cluster}` "
                "so that it chooses other ports",
            )
