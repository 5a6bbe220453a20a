"""Network of the nodes: one namespace with a bridge, and one for each node, joined by veth pairs.

No interface is in the machine's own network namespace, and no route leads out: a packet to any other address is
unreachable.
"""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from trainyard.errors import TrainyardError
from trainyard.local.cluster.node.node_plan import GATEWAY, NAMESPACE_FOLDER, NodePlan, junction

_BRIDGE = "nodes"
_PREFIX = 24
_MARK = Path("/run/trainyard-netns")
"""Exists while the folder of the namespaces is mounted on behalf of nodes, for which it was not before."""
_NO_FOLDER = "no folder"
_MOUNTS = Path("/proc/self/mounts")

RunIp = Callable[[Sequence[str]], str]


def network_commands(cluster: str, nodes: Sequence[NodePlan]) -> list[list[str]]:
    """Return the arguments of ``ip`` that create the network; the routes of the hub to the pods come last."""
    hub = junction(cluster)
    commands = [
        ["netns", "add", hub],
        ["-n", hub, "link", "set", "lo", "up"],
        ["-n", hub, "link", "add", _BRIDGE, "type", "bridge"],
        ["-n", hub, "link", "set", _BRIDGE, "up"],
        ["-n", hub, "address", "add", f"{GATEWAY}/{_PREFIX}", "dev", _BRIDGE],
    ]
    for node in nodes:
        own = ["-n", node.namespace]
        commands += [
            ["netns", "add", node.namespace],
            ["-n", hub, "link", "add", node.link, "type", "veth", "peer", "name", "eth0", "netns", node.namespace],
            ["-n", hub, "link", "set", node.link, "master", _BRIDGE, "up"],
            [*own, "link", "set", "lo", "up"],
            [*own, "address", "add", f"{node.address}/{_PREFIX}", "dev", "eth0"],
            [*own, "link", "set", "eth0", "up"],
            # kube-proxy translates addresses of Services only after a route was found, and no route leads out of here.
            [*own, "route", "add", "default", "via", GATEWAY],
            *([*own, "route", "add", peer.pods, "via", peer.address] for peer in nodes if peer != node),
        ]
    return [*commands, *(["-n", hub, "route", "add", node.pods, "via", node.address] for node in nodes)]


def run_ip(arguments: Sequence[str]) -> str:
    """Run ``ip`` and return its output.

    Raises
    ------
    TrainyardError
        It failed.
    """
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)  # noqa: S603, S607
    if done.returncode:
        raise TrainyardError(
            f"`ip {' '.join(arguments)}` failed: {' '.join(done.stderr.split())[-300:]}",
            fix="provider node needs root and network namespaces; run `trainyard cluster down`, then `up` again",
        )
    return done.stdout


def namespaces(cluster: str) -> list[str]:
    """Return the names of the network namespaces of a cluster that exist."""
    hub = junction(cluster)
    if not NAMESPACE_FOLDER.is_dir():
        return []
    found = sorted(path.name for path in NAMESPACE_FOLDER.iterdir())
    return [name for name in found if name == hub or (name.startswith(f"{hub}.") and name[len(hub) + 1 :].isdigit())]


def is_connected(cluster: str, nodes: Sequence[NodePlan], run: RunIp = run_ip) -> bool:
    """Return whether the network is complete, with these nodes and no others."""
    wanted = sorted([junction(cluster), *(node.namespace for node in nodes)])
    if namespaces(cluster) != wanted:
        return False
    try:
        routes = run(["-n", junction(cluster), "route"])
    except TrainyardError:
        return False
    return all(f"{node.pods} via {node.address}" in routes for node in nodes)


def connect(cluster: str, nodes: Sequence[NodePlan], run: RunIp = run_ip) -> None:
    """Create the network; remains of an interrupted start must have been removed."""
    if not _is_mounted():
        # iproute2 mounts the folder over itself when it makes the first namespace, and leaves that.
        _MARK.write_text("" if NAMESPACE_FOLDER.is_dir() else _NO_FOLDER)
    for command in network_commands(cluster, nodes):
        run(command)


def disconnect(names: Iterable[str], run: RunIp = run_ip) -> None:
    """Delete network namespaces, with their interfaces and rules; what `connect` found mounted stays so."""
    for name in names:
        run(["netns", "delete", name])
    if not _MARK.is_file() or (NAMESPACE_FOLDER.is_dir() and any(NAMESPACE_FOLDER.iterdir())):
        return
    if _is_mounted():
        subprocess.run(["umount", str(NAMESPACE_FOLDER)], capture_output=True, check=False)  # noqa: S603, S607
    with contextlib.suppress(OSError):
        if _MARK.read_text() == _NO_FOLDER:
            NAMESPACE_FOLDER.rmdir()
    _MARK.unlink()


def _is_mounted() -> bool:
    mounts = (line.split(" ")[1] for line in _MOUNTS.read_text().splitlines())
    return str(NAMESPACE_FOLDER) in mounts
