"""Requirements of a kind cluster: programs, control groups, container runtime and memory."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from trainyard.checks.finding import Finding
from trainyard.errors import TrainyardError
from trainyard.local.cluster.toolchain import Toolchain
from trainyard.local.images.container_engine import ENGINES, ContainerEngine, describe_engine, find_engine
from trainyard.settings.versions import PROGRAMS

_MANY_NODES = 20
_CONTROL_PLANE, _WORKER = 1228, 307
"""MiB that a fresh node needs: measured 1.2 GB and 0.3 GB."""
MODULES = Path("/lib/modules")

Which = Callable[[str], str | None]


def find_kind(which: Which = shutil.which) -> str | None:
    """Return the kind command on PATH, else that of the toolchain; None if neither exists."""
    return which("kind") or (str(built) if (built := built_kind()) else None)


def built_kind() -> Path | None:
    """Return the kind command of the toolchain; None if it is not built."""
    return Toolchain().resolve([next(program for program in PROGRAMS if program.name == "kind")])[0].path


def missing_programs(which: Which = shutil.which) -> list[Finding]:
    """Return the programs that are missing."""
    findings = []
    if find_kind(which) is None:
        fix = "run `trainyard cluster toolchain --with kind`, or install kind: https://kind.sigs.k8s.io"
        findings.append(Finding("kind", "the kind command is not on PATH, and is not built", fix))
    if find_engine(which) is None:
        findings.append(Finding("container engine", f"none of {', '.join(ENGINES)} is on PATH", "install one of them"))
    return findings


def responding_engine(program: str) -> ContainerEngine | Finding:
    """Return what an engine reports, or that it does not respond."""
    try:
        return describe_engine(program)
    except TrainyardError as error:
        return Finding("container engine", error.message, error.fix)


def missing_for(engine: ContainerEngine, nodes: int, modules: Path | None = None) -> list[Finding]:
    """Return why an engine cannot run a cluster.

    Parameters
    ----------
    nodes
        Nodes of the fabric.
    modules
        Folder of the kernel's modules; None: ``/lib/modules``.
    """
    findings = []
    folder = modules or MODULES
    # Elsewhere the engine runs in a virtual machine, which has the folder.
    if sys.platform == "linux" and not folder.is_dir():
        message = f"{folder} does not exist, but kind mounts it into every node"
        findings.append(Finding("kernel modules", message, f"mkdir -p {folder}"))
    if engine.cgroup_version == 1 and engine.rootless:
        fix = "run the engine as root, or boot with systemd.unified_cgroup_hierarchy=1"
        findings.append(Finding("cgroups", f"{engine.program} without root needs cgroup version 2, not 1", fix))
    if engine.cgroup_version == 1 and engine.runtime == "crun":
        message = "crun does not start nodes with cgroup version 1 (`cgroups in hybrid mode not supported`)"
        fix = 'install runc, and set runtime = "runc" and cgroup_manager = "cgroupfs" under [engine] of containers.conf'
        findings.append(Finding("container runtime", message, fix))
    needed = _CONTROL_PLANE + _WORKER * (nodes + 1)
    if engine.memory and engine.memory >> 20 < needed:
        message = f"{engine.program} has {engine.memory >> 20} MiB, but {nodes + 2} nodes need {needed} MiB"
        fix = "give its virtual machine more memory, or declare fewer nodes in trainyard:fabric.domains"
        findings.append(Finding("memory", message, fix))
    if nodes > _MANY_NODES:
        fix = f"declare at most {_MANY_NODES}, or use the embedded provider"
        message = f"{nodes} nodes would be {nodes} containers on this machine"
        findings.append(Finding("trainyard:fabric.domains", message, fix))
    return findings
