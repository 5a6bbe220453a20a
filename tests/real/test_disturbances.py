"""Drained nodes, killed programs and interrupted commands: no job is lost, and nothing stays on the machine."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterable
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tests.real.conftest import RealCluster
from tests.real.real_jobs import GATED, job, open_gate
from tests.support import awaited, repeated, require

pytestmark = pytest.mark.real

PLATFORM = ("kubeflow-system", "volcano-system", "jobset-system")
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


Submission = tuple[str, subprocess.CompletedProcess[str]]


def submissions(real: RealCluster, prefix: str) -> Callable[[], Submission]:
    """Return what submits another suspended TrainJob at each call."""
    numbers = count(1)

    def submit() -> Submission:
        body = job(f"{prefix}-{next(numbers)}", suspend=True)
        return body["metadata"]["name"], real.cluster.apply(body)

    return submit


def none_is_lost(real: RealCluster, names: Iterable[str]) -> None:
    """Check that TrainJobs exist, and delete them: a tenant has a limited number of them."""
    wanted = set(names)
    found = {each["metadata"]["name"] for each in real.cluster.get("trainjobs", "-n", "language")["items"]}
    assert wanted - found == set()
    require(real.cluster.kubectl("delete", "trainjobs", *sorted(wanted), "-n", "language", "--wait=false"))


def test_no_job_is_refused_or_lost_while_each_node_is_drained(real: RealCluster) -> None:
    with repeated(submissions(real, "drain"), every=1.0) as submitted:
        for node in NODES:
            options = ("--ignore-daemonsets", "--delete-emptydir-data", "--force", "--timeout=150s")
            require(real.cluster.kubectl("drain", node, *options, timeout=200))
            require(real.cluster.kubectl("uncordon", node))
            ready = ("wait", "--for=condition=Available", "deployments", "--all", "-A", "--timeout=120s")
            require(real.cluster.kubectl(*ready, timeout=150))
    assert len(submitted) > len(NODES)
    for name, result in submitted:
        assert result.returncode == 0, (name, result.stderr)
    none_is_lost(real, [name for name, _ in submitted])


def leaders(real: RealCluster) -> dict[tuple[str, str], str]:
    """Return the pod that holds each lease of the platform, by namespace and name of the lease."""
    return {
        (namespace, lease["metadata"]["name"]): pod["metadata"]["name"]
        for namespace in PLATFORM
        for lease in real.cluster.get("leases", "-n", namespace)["items"]
        for pod in real.cluster.get("pods", "-n", namespace)["items"]
        if lease["spec"].get("holderIdentity", "").startswith(pod["metadata"]["name"])
    }


def kill_one(program: str) -> None:
    """Kill a program of a node or of the control plane, and wait until it was started again."""
    before = processes(program)
    os.kill(before[0], signal.SIGKILL)
    awaited(f"a new {program}", lambda: len(now := processes(program)) == len(before) and now != before, timeout=30)


def test_a_running_job_and_all_others_survive_the_end_of_programs_and_leaders(real: RealCluster) -> None:
    require(real.cluster.apply(job("steady", code=GATED, workers=3)))

    def workers() -> dict[str, dict[str, Any]]:
        pods = real.cluster.pods("steady", "language")
        return {pod["metadata"]["uid"]: pod for pod in pods if pod["status"]["phase"] == "Running"}

    before = awaited("three workers", lambda: found if len(found := workers()) == 3 else None)
    former = leaders(real)
    assert {namespace for namespace, _ in former} == set(PLATFORM)
    with repeated(submissions(real, "kill"), every=1.0) as submitted:
        for program in ("kubelet", "containerd", "kube-apiserver"):
            kill_one(program)
            awaited("the API server", lambda: real.cluster.kubectl("get", "--raw", "/readyz").returncode == 0)
        for (namespace, _), pod in former.items():
            force = ("--grace-period=0", "--force", "--ignore-not-found")
            require(real.cluster.kubectl("delete", "pod", pod, "-n", namespace, *force))
        awaited(
            "other leaders",
            lambda: (now := leaders(real)).keys() == former.keys() and not set(now.values()) & set(former.values()),
            timeout=90,
        )
        awaited("ready nodes", lambda: all_ready(real))
    refused = {name: result.stderr for name, result in submitted if result.returncode}
    assert len(refused) < len(submitted)
    assert [text for text in refused.values() if not _is_outage(text)] == []
    none_is_lost(real, [name for name, result in submitted if result.returncode == 0])
    assert workers().keys() == before.keys()
    for pod in before.values():
        open_gate(real.cluster, pod)
    real.cluster.condition("steady", "language", "Complete")
    statuses = [each for pod in real.cluster.pods("steady", "language") for each in pod["status"]["containerStatuses"]]
    assert [each["restartCount"] for each in statuses] == [0, 0, 0]
    require(real.cluster.apply(job("after-all")))
    real.cluster.condition("after-all", "language", "Complete")


def _is_outage(message: str) -> bool:
    """Return whether no API server evaluated a request: none answered, or it had not yet read its policies."""
    signs = (
        "refused",
        "EOF",
        "connection reset",
        "connection lost",
        "shutting down",
        "not yet ready to handle request",
    )
    return any(sign in message for sign in signs)


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
