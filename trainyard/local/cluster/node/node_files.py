"""Configuration files of a node's programs; pure."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from trainyard.local.cluster.node.node_plan import POD_RANGE, NodePlan

CLUSTER_DNS = "10.96.0.10"
"""Address of the Service of CoreDNS."""
CONTAINERD_SOCKET = "/run/containerd/containerd.sock"
"""Inside a node; shims use the folder whatever the configuration says."""

COVERED = ("/run", "/tmp", "/dev/shm", "/var/lib", "/var/log")  # noqa: S108
"""Folders that each node has of its own, and where it sees no file of the machine."""

FREE_MEMORY = 100 << 20
"""Bytes of the machine's memory below which a kubelet evicts pods."""
_OOM_SCORE = 0
"""The programs' own defaults would make the kernel end other programs of the machine before them."""
_INSIDE = Path("/run/node")
"""Where a node sees its folder."""
_PROGRAMS = Path("/run/programs")
"""Where it sees the programs that Trainyard builds, wherever their files are."""


@dataclass(frozen=True)
class NodePrograms:
    """Program files of the nodes of a machine.

    Parameters
    ----------
    kubelet, proxy, containerd
        The programs.
    plugins
        Folder of the CNI plug-ins.
    """

    kubelet: Path
    proxy: Path
    containerd: Path
    plugins: Path


@dataclass(frozen=True)
class NodeFolder:
    """Files of one node on this machine.

    Parameters
    ----------
    root
        Its folder.
    """

    root: Path

    @property
    def parts(self) -> tuple[Path, ...]:
        """Folders that the node binds over those of the machine, and that of its configuration."""
        return tuple(self.root / name for name in ("lib", "log", "etc", "etc/cni"))

    @property
    def init(self) -> Path:
        """File that its first process reads."""
        return self.root / "etc" / "init.json"

    def log(self, program: str) -> Path:
        """Return the log file of a program of the node."""
        return self.root / "log" / f"{program}.log"


def files(
    node: NodePlan, programs: NodePrograms, pause: str, reserved: dict[str, str], pods: int = 110
) -> dict[str, str]:
    """Return the texts of the configuration files by their paths in the node's folder.

    Parameters
    ----------
    node
        The node.
    programs
        Its programs.
    pause
        Reference of the pause image.
    reserved
        Amounts by resource that the machine has and the node does not offer.
    pods
        Greatest number of its pods.
    """
    return {
        "etc/cni/10-pods.conflist": json.dumps(_cni(node), indent=2) + "\n",
        "etc/containerd.toml": _containerd(programs, pause),
        "etc/kubelet.yaml": yaml.safe_dump(_kubelet(node, reserved, pods), sort_keys=False),
        "etc/kube-proxy.yaml": yaml.safe_dump(_proxy(node), sort_keys=False),
    }


def init_file(node: NodePlan, folder: Path, hidden: Path, programs: NodePrograms, cgroups: list[Path]) -> str:
    """Return the text of the file that the first process of a node reads.

    Parameters
    ----------
    node
        The node.
    folder
        Its folder.
    hidden
        Folder that it must not see.
    programs
        Its programs.
    cgroups
        Its control groups.
    """
    built = {"kubelet": programs.kubelet, "kube-proxy": programs.proxy}
    etc, logs = _INSIDE / "etc", Path("/var/log")
    commands: list[tuple[str, list[str], str | None]] = [
        ("containerd", [str(programs.containerd), f"--config={etc / 'containerd.toml'}"], None),
        (
            "kubelet",
            [
                str(_PROGRAMS / "kubelet"),
                f"--config={etc / 'kubelet.yaml'}",
                f"--kubeconfig={etc / 'kubelet.kubeconfig'}",
                f"--hostname-override={node.name}",
                f"--node-ip={node.address}",
            ],
            CONTAINERD_SOCKET,
        ),
        ("kube-proxy", [str(_PROGRAMS / "kube-proxy"), f"--config={etc / 'kube-proxy.yaml'}"], None),
    ]
    document = {
        "name": node.name,
        "folder": str(folder),
        "hidden": str(hidden),
        "files": {name: str(path) for name, path in built.items()},
        "cgroups": [str(path) for path in cgroups],
        "programs": [
            {"name": name, "command": command, "log": str(logs / f"{name}.log"), **({"after": after} if after else {})}
            for name, command, after in commands
        ],
    }
    return json.dumps(document, indent=2) + "\n"


def _cni(node: NodePlan) -> dict[str, Any]:
    ranges = [[{"subnet": node.pods}]]
    ipam = {"type": "host-local", "dataDir": "/var/lib/cni", "routes": [{"dst": "0.0.0.0/0"}], "ranges": ranges}
    return {"cniVersion": "0.4.0", "name": "pods", "plugins": [{"type": "ptp", "ipMasq": False, "ipam": ipam}]}


def _containerd(programs: NodePrograms, pause: str) -> str:
    return f"""version = 2
root = "/var/lib/containerd"
state = "/run/containerd"

[grpc]
  address = "{CONTAINERD_SOCKET}"

[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{pause}"
  restrict_oom_score_adj = true

  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{programs.plugins}"
    conf_dir = "{_INSIDE / "etc" / "cni"}"

[plugins."io.containerd.internal.v1.opt"]
  path = "/var/lib/containerd/opt"
"""


def _kubelet(node: NodePlan, reserved: dict[str, str], pods: int) -> dict[str, Any]:
    etc = _INSIDE / "etc"
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": node.address,
        "healthzBindAddress": node.address,
        "tlsCertFile": str(etc / "kubelet.crt"),
        "tlsPrivateKeyFile": str(etc / "kubelet.key"),
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(etc / "ca.crt")},
        },
        "authorization": {"mode": "Webhook"},
        "volumePluginDir": "/var/lib/kubelet/volume-plugins",
        "containerRuntimeEndpoint": f"unix://{CONTAINERD_SOCKET}",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": node.cgroup,
        "enforceNodeAllocatable": ["pods"],
        "failCgroupV1": False,
        "failSwapOn": False,
        "systemReserved": reserved,
        "maxPods": pods,
        # The disk of the machine is not the node's: its fill level is no reason to evict pods.
        "evictionHard": {
            "memory.available": f"{FREE_MEMORY >> 20}Mi",
            "nodefs.available": "1%",
            "imagefs.available": "1%",
        },
        "imageGCHighThresholdPercent": 100,
        "resolvConf": "",
        "clusterDNS": [CLUSTER_DNS],
        "clusterDomain": "cluster.local",
        # A changed Secret, such as a renewed certificate, reaches its pods within this period.
        "syncFrequency": "10s",
        "nodeStatusUpdateFrequency": "5s",
        "shutdownGracePeriod": "0s",
        "oomScoreAdj": _OOM_SCORE,
    }


def _proxy(node: NodePlan) -> dict[str, Any]:
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "nftables",
        "clientConnection": {"kubeconfig": str(_INSIDE / "etc" / "kube-proxy.kubeconfig")},
        "hostnameOverride": node.name,
        "clusterCIDR": POD_RANGE,
        "conntrack": {"maxPerCore": 0, "min": 0},
        "healthzBindAddress": f"{node.address}:10256",
        "metricsBindAddress": "127.0.0.1:10249",
        "oomScoreAdj": _OOM_SCORE,
    }
