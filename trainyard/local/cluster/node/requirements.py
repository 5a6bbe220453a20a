"""Requirements that a machine must meet for nodes with kubelets."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import psutil

from trainyard.checks.finding import Finding
from trainyard.errors import TrainyardError
from trainyard.local.cluster.folders import state_home
from trainyard.local.cluster.node.control_groups import Hierarchy, hierarchies
from trainyard.local.cluster.node.kernel_probes import failing_probes
from trainyard.local.cluster.node.node_files import COVERED, FREE_MEMORY, NodePrograms
from trainyard.quantity import parse

_PACKAGES: Mapping[str, str] = {
    "containerd": "containerd",
    "ctr": "containerd",
    "runc": "runc",
    "ip": "iproute2",
    "nft": "nftables",
    "nsenter": "util-linux",
    "unshare": "util-linux",
    "mount": "mount",
}
"""Debian package of each program."""
_PLUGINS = ("ptp", "host-local", "loopback")
_PLUGIN_FOLDERS = (Path("/usr/lib/cni"), Path("/opt/cni/bin"))
_CONTROLLERS = ("cpu", "cpuset", "memory", "pids")
_ADDRESSES = 253
_MEMORY_MIB = 3072
"""Measured: 2.5 GB for control plane, three nodes and the platform with two replicas."""
_DISK_MIB = 4096
"""Three nodes with all images, and their files."""
_ELSEWHERE = "install it elsewhere, for example in /usr/local/bin"
_OTHER = "use --provider embedded, which needs neither root nor containers"

Which = Callable[[str], str | None]


def missing(which: Which = shutil.which, *, root: bool | None = None, linux: bool | None = None) -> list[Finding]:
    """Return what this machine lacks, with the fix of each."""
    if not (sys.platform == "linux" if linux is None else linux):
        return [Finding("system", f"{sys.platform} has no namespaces", "use Linux")]
    found = []
    if not (os.geteuid() == 0 if root is None else root):
        found.append(Finding("user", "namespaces, mounts and cgroups need root", "run the command as root"))
    for program, package in _PACKAGES.items():
        path = which(program)
        if path is None:
            found.append(Finding(program, "not on PATH", f"install it (Debian: apt-get install {package})"))
        elif any(Path(path).is_relative_to(covered) for covered in COVERED):
            found.append(Finding(program, f"{path} is below a folder that nodes have of their own", _ELSEWHERE))
    if _plugins() is None:
        fix = "install them (Debian: apt-get install containernetworking-plugins)"
        found.append(Finding("CNI plug-ins", f"{', '.join(_PLUGINS)} are in none of {_folders()}", fix))
    if which("cc") is None and which("gcc") is None:
        fix = "install it (Debian: apt-get install gcc libc6-dev)"
        found.append(Finding("C compiler", "neither cc nor gcc is on PATH; images of nodes contain C programs", fix))
    found += _sizes()
    found += _kernel()
    return found


def _sizes() -> list[Finding]:
    """Return whether memory or disk are too small for the control plane, three nodes and the platform."""
    found = []
    memory = psutil.virtual_memory().total >> 20
    if memory < _MEMORY_MIB:
        message = f"the machine has {memory} MiB, but the control plane, nodes and the platform need {_MEMORY_MIB} MiB"
        found.append(Finding("memory", message, "use a machine with more memory, or --provider embedded"))
    folder = state_home()
    existing = next(each for each in (folder, *folder.parents) if each.exists())
    free = shutil.disk_usage(existing).free >> 20
    if free < _DISK_MIB:
        message = f"{free} MiB are free, but images and files of the nodes need {_DISK_MIB} MiB"
        found.append(Finding(str(folder), message, "free space, or set TRAINYARD_STATE_HOME to another file system"))
    return found


def _folders() -> str:
    return ", ".join(map(str, _PLUGIN_FOLDERS))


def _plugins() -> Path | None:
    return next((folder for folder in _PLUGIN_FOLDERS if all((folder / name).is_file() for name in _PLUGINS)), None)


def _kernel() -> list[Finding]:
    """Return the features that the kernel, or the container that this process runs in, does not give."""
    found = []
    known = hierarchies()
    for hierarchy in known:
        if not os.access(hierarchy.root, os.W_OK):
            found.append(Finding(str(hierarchy.root), "read-only", "start this container with writable cgroups"))
    found += _controllers(known)
    if os.geteuid() == 0 and shutil.which("unshare") is not None:
        tried = ["unshare", "--mount", "--net", "--uts", "--ipc", "--pid", "--fork", "true"]
        done = subprocess.run(tried, capture_output=True, text=True, check=False)  # noqa: S603
        if done.returncode:
            why = " ".join(done.stderr.split())[-200:]
            found.append(Finding("namespaces", why, "start this container with the capability SYS_ADMIN"))
        else:
            found += failing_probes(state_home())
    return found


def _controllers(known: Iterable[Hierarchy]) -> list[Finding]:
    """Return what control groups lack; those of version 2 are not supported."""
    first: set[str] = set()
    second: set[str] = set()
    for hierarchy in known:
        first.update(hierarchy.controllers)
        if hierarchy.unified:
            second.update((hierarchy.root / "cgroup.controllers").read_text().split())
    absent = [name for name in _CONTROLLERS if name not in first]
    if unsupported := [name for name in absent if name in second]:
        found = f"version 2 has the controllers {', '.join(unsupported)}; nodes need version 1"
        fix = "boot with systemd.unified_cgroup_hierarchy=0 and SYSTEMD_CGROUP_ENABLE_LEGACY_FORCE=1"
        return [Finding("cgroups", found, fix)]
    if absent:
        return [Finding("cgroups", f"no controller {', '.join(absent)}", "enable it on the kernel's command line")]
    return []


def require_suitable_machine(cluster: str) -> None:
    """Raise unless nodes with kubelets can be started.

    Raises
    ------
    TrainyardError
        Names everything that is missing.
    """
    if findings := missing():
        raise TrainyardError(
            f"This machine cannot run the nodes of cluster {cluster}", findings=findings, fix=f"see above, or {_OTHER}"
        )


def programs_on_machine(kubelet: Path, proxy: Path) -> NodePrograms:
    """Return the programs of the nodes; `require_suitable_machine` has found them."""
    containerd, plugins = shutil.which("containerd"), _plugins()
    assert containerd is not None and plugins is not None  # noqa: S101, PT018
    return NodePrograms(kubelet, proxy, Path(containerd), plugins)


def most_pods(capacity: Mapping[str, str]) -> int:
    """Return the greatest number of pods of a node; each has an address of the node's range."""
    return min(int(parse(capacity.get("pods", "110"))), _ADDRESSES)


def reserved(capacity: Mapping[str, str], name: str) -> dict[str, str]:
    """Return what the machine has and a node does not offer, so that a pod gets no more than the fabric says.

    Raises
    ------
    TrainyardError
        The machine has less than the fabric gives the node.
    """
    machine = {"cpu": float(os.cpu_count() or 1), "memory": float(psutil.virtual_memory().total)}
    found = {}
    for resource, has in machine.items():
        if resource not in capacity:
            continue
        wanted = float(parse(capacity[resource]))
        if wanted > has:
            shown = f"{has:g}" if resource == "cpu" else f"{int(has) >> 20}Mi"
            raise TrainyardError(
                f"Node {name} of the fabric has {resource} {capacity[resource]}, but this machine has {shown}",
                fix=f"reduce {resource} in trainyard:fabric.nodeShape.capacity",
            )
        rest = has - wanted
        # The kubelet also subtracts what it keeps free.
        found[resource] = f"{round(rest * 1000)}m" if resource == "cpu" else str(max(0, int(rest) - FREE_MEMORY))
    return found
