"""Drained nodes, killed programs and interrupted commands: no job is lost, and nothing stays on the machine."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.real.conftest import RealCluster
from tests.real.real_jobs import job
from tests.support import awaited, repeated, require

pytestmark = pytest.mark.real

NODES = ("worker-0", "worker-1", "worker-2")


def processes(program: str) -> list[int]:
    """Return the ids of processes of a program of the nodes."""
    found = []
    for folder in Path("/proc").iterdir():
        try:
            command = (folder / "cmdline").read_bytes().split(b"\0")[0].decode()
        except OSError:
            continue
        if folder.name.isdigit() and Path(command).name == program:
            found.append(int(folder.name))
    return sorted(found)


def all_ready(real: RealCluster) -> bool:
    nodes = real.cluster.get("nodes")["items"]
    return len(nodes) == len(NODES) and all(
        each["status"] == "True" for node in nodes for each in node["status"]["conditions"] if each["type"] == "Ready"
    )


def test_no_job_is_refused_or_lost_while_each_node_is_drained(real: RealCluster) -> None:
    count = 0

    def submit() -> tuple[str, subprocess.CompletedProcess[str]]:
        nonlocal count
        count += 1
        body = job(f"drain-{count}", suspend=True)
        return body["metadata"]["name"], real.cluster.apply(body)

    with repeated(submit, every=1.0) as submitted:
        for node in NODES:
            options = ("--ignore-daemonsets", "--delete-emptydir-data", "--force", "--timeout=150s")
            require(real.cluster.kubectl("drain", node, *options, timeout=200))
            require(real.cluster.kubectl("uncordon", node))
            ready = ("wait", "--for=condition=Available", "deployments", "--all", "-A", "--timeout=120s")
            require(real.cluster.kubectl(*ready, timeout=150))
    assert len(submitted) > len(NODES)
    for name, result in submitted:
        assert result.returncode == 0, (name, result.stderr)
    suspended = {each["metadata"]["name"] for each in real.cluster.get("trainjobs", "-n", "language")["items"]}
    assert {name for name, _ in submitted} <= suspended


@pytest.mark.parametrize("program", ["kubelet", "containerd", "kube-proxy"])
def test_a_killed_program_of_a_node_is_started_again(real: RealCluster, program: str) -> None:
    before = processes(program)
    assert len(before) == len(NODES)
    os.kill(before[0], signal.SIGKILL)
    awaited(
        f"a new {program}",
        lambda: (len(now := processes(program)) == len(NODES) and now != before) or None,
        timeout=30,
    )
    awaited("ready nodes", lambda: all_ready(real) or None, timeout=60)
    name = f"after-{program}"
    require(real.cluster.apply(job(name)))
    real.cluster.condition(name, "language", "Complete")


def test_the_leader_is_replaced(real: RealCluster) -> None:
    def holder() -> str:
        found = real.cluster.get("leases", "-n", "kubeflow-system")["items"]
        return str(found[0]["spec"]["holderIdentity"])

    before = holder()
    leader = next(
        pod["metadata"]["name"]
        for pod in real.cluster.get("pods", "-n", "kubeflow-system")["items"]
        if pod["metadata"]["name"] in before
    )
    require(real.cluster.kubectl("delete", "pod", leader, "-n", "kubeflow-system", "--grace-period=0", "--force"))
    awaited("another leader", lambda: holder() != before or None, timeout=60)
    require(real.cluster.apply(job("after-leader")))
    real.cluster.condition("after-leader", "language", "Complete")
