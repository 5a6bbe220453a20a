"""Ports of a cluster on this machine: allocated once, kept until it is deleted, never shared with another cluster."""

from __future__ import annotations

import asyncio
import contextlib
import json
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path

import psutil

from trainyard.errors import TrainyardError
from trainyard.listening import bound_socket
from trainyard.local.cluster.host_address import HOST
from trainyard.local.cluster.supervisor.host_programs import HOST_PROGRAMS

SLOTS = 6
"""Maximum concurrent replicas of a Deployment: the five that settings allow, and one during a roll-out."""

WEBHOOK_PROGRAMS = tuple(name for name, program in HOST_PROGRAMS.items() if "webhook" in program.ports)
"""Programs that serve webhooks."""

_REPLICA_USES = tuple(f"{name}/{port}" for name, program in HOST_PROGRAMS.items() for port in program.ports)


def slot_name(program: str, slot: int) -> str:
    """Return the base name of a replica's files: the program's name for the first slot."""
    return f"{program}.{slot}" if slot else program


PORT_NAMES = (
    "etcd/client",
    "etcd/peer",
    "kube-apiserver/secure",
    "kube-controller-manager/secure",
    "kube-scheduler/secure",
    "kwok/server",
    *(program.serving_port for program in HOST_PROGRAMS.values() if program.serving_port),
    *(f"{slot}.{use}" for slot in range(SLOTS) for use in _REPLICA_USES),
)
"""Uses of ports: ``<program>/<use>``, and ``<slot>.<program>/<use>`` for a replica.

The serving port of a program is that of its URL; the forwarder passes its connections to ready replicas.
"""


def slot_ports(ports: Mapping[str, int], slot: int) -> dict[str, int]:
    """Return the ports of a slot by ``<program>/<use>``."""
    prefix = f"{slot}."
    return {use.removeprefix(prefix): port for use, port in ports.items() if use.startswith(prefix)}


_ATTEMPTS, _RETRY_SECONDS = 6, 0.5

_FIRST, _LAST = 20000, 31999
"""Below the ephemeral range, so that outgoing connections do not take a port while the cluster is stopped."""


def allocate(seed: str, known: Mapping[str, int], reserved: Iterable[int], host: str = HOST) -> dict[str, int]:
    """Return a port for every use; known ports are kept.

    Parameters
    ----------
    seed
        Determines where the search starts, such as the cluster's folder, so that clusters of other names, users and
        state folders rarely collide.
    known
        Ports that are already allocated to the cluster.
    reserved
        Ports of other clusters, running or not.
    host
        Address on which they are free.
    """
    ports = {use: known[use] for use in PORT_NAMES if use in known}
    unavailable = {*reserved, *ports.values()}
    span = _LAST - _FIRST + 1
    start = zlib.crc32(seed.encode()) % span
    candidates = (_FIRST + (start + step) % span for step in range(span))
    for use in PORT_NAMES:
        if use in ports:
            continue
        port = next((port for port in candidates if port not in unavailable and is_free(port, host)), None)
        if port is None:
            raise TrainyardError(
                f"No port between {_FIRST} and {_LAST} is free on {host}", fix="stop programs that listen on them"
            )
        ports[use] = port
    return ports


def reserved_by_others(clusters: Path, name: str) -> set[int]:
    """Return the ports of all other clusters in a folder."""
    ports: set[int] = set()
    for file in clusters.glob("*/cluster.json"):
        if file.parent.name == name:
            continue
        with contextlib.suppress(OSError, ValueError, AttributeError, TypeError):
            ports.update(int(port) for port in json.loads(file.read_bytes()).get("ports", {}).values())
    return ports


def is_free(port: int, host: str = HOST) -> bool:
    """Return whether a server could listen on a port."""
    try:
        bound_socket(host, port).close()
    except OSError:
        return False
    return True


def port_owner(port: int) -> str | None:
    """Return the process that listens on a port ("python3, pid 42"), or None if unknown."""
    with contextlib.suppress(psutil.Error, OSError):
        for connection in psutil.net_connections("tcp"):
            local = connection.laddr
            if connection.status == psutil.CONN_LISTEN and connection.pid and local and local.port == port:
                return f"{psutil.Process(connection.pid).name()}, pid {connection.pid}"
    return None


async def find_conflict(ports: Mapping[str, int], host: str = HOST) -> str | None:
    """Return the first taken port and its owner, or None; each port is retried for some seconds."""
    for use, port in ports.items():
        for _ in range(_ATTEMPTS):
            if is_free(port, host):
                break
            await asyncio.sleep(_RETRY_SECONDS)
        else:
            return f"port {port} of {host} ({use}) is taken by {port_owner(port) or 'another program'}"
    return None


def require_free_ports(ports: Mapping[str, int], cluster: str, host: str = HOST) -> None:
    """Raise an error if a port is taken.

    Raises
    ------
    TrainyardError
        Names the port and, if known, the process.
    """
    for use, port in ports.items():
        if not is_free(port, host):
            owner = port_owner(port)
            raise TrainyardError(
                f"Port {port} of {host}, which cluster {cluster} needs for {use}, is taken"
                + (f" by {owner}" if owner else ""),
                fix=f"stop that program, or remove the cluster with `trainyard cluster down --delete --name {cluster}` "
                "so that other ports are allocated",
            )
