"""Processes of the nodes: the relay, and for each node the program that starts it in its namespaces."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from trainyard.local.cluster.controlplane import ControlPlaneProcess
from trainyard.local.cluster.folders import ClusterFolder
from trainyard.local.cluster.health_probes import Probe
from trainyard.local.cluster.node.node_files import NodeFolder
from trainyard.local.cluster.node.node_plan import (
    GATEWAY,
    NAMESPACE_FOLDER,
    NodePlan,
    junction,
    machine_name,
    plan_nodes,
)
from trainyard.local.cluster.process import ProcessSpec
from trainyard.local.cluster.state import ClusterState
from trainyard.settings.versions import KUBERNETES_VERSION

RELAY = "relay"

_KUBELET_HEALTH = 10248
_MODULES = Path(__file__).parent


def node_processes(folder: ClusterFolder, state: ClusterState) -> tuple[ControlPlaneProcess, ...]:
    """Return the processes of the nodes in start order; none if all nodes are simulated."""
    if not state.kubelets:
        return ()
    port = state.ports["kube-apiserver/secure"]
    proxy = folder.relay_socket
    cluster = machine_name(folder.root)
    relay = ControlPlaneProcess(
        ProcessSpec(
            name=RELAY,
            version="",
            command=(
                sys.executable,
                "-I",
                str(_MODULES / "relay.py"),
                f"--namespace={NAMESPACE_FOLDER / junction(cluster)}",
                f"--address={GATEWAY}",
                f"--api-port={port}",
                f"--socket={proxy}",
            ),
            log=folder.log(RELAY),
            address=f"{GATEWAY}:{port}",
            inputs=(_MODULES / "relay.py").read_text(),
        ),
        Probe(port, "/readyz", folder.pki / "ca.crt", folder.pki / "supervisor.crt", proxy=proxy, address=GATEWAY),
        "kube-apiserver",
        {},
    )
    return (relay, *(_node(folder, node) for node in plan_nodes(cluster, state.kubelets)))


def _node(folder: ClusterFolder, node: NodePlan) -> ControlPlaneProcess:
    files = NodeFolder(folder.nodes / node.name)
    etc = sorted(path for path in files.init.parent.rglob("*") if path.is_file())
    return ControlPlaneProcess(
        ProcessSpec(
            name=node.process,
            version=KUBERNETES_VERSION,
            command=(
                shutil.which("nsenter") or "nsenter",
                f"--net={NAMESPACE_FOLDER / node.namespace}",
                "unshare",
                "--mount",
                "--uts",
                "--ipc",
                "--pid",
                "--fork",
                "--mount-proc",
                # The node ends with this process: the kernel kills all that runs in the process namespace.
                "--kill-child",
                sys.executable,
                "-I",
                str(_MODULES / "node_init.py"),
                str(files.init),
            ),
            log=folder.log(node.process),
            address=node.address,
            inputs="".join([(_MODULES / "node_init.py").read_text(), *(path.read_text() for path in etc)]),
        ),
        Probe(_KUBELET_HEALTH, "/healthz", proxy=folder.relay_socket, address=node.address),
        RELAY,
        {},
    )
