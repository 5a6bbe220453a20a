"""Drained nodes, killed programs and interrupted commands: no job is lost, and nothing stays on the machine."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tests.real.conftest import RealCluster
from tests.real.outage_messages import is_outage
from tests.real.real_jobs import GATED, job, open_gate, reference, runtime
from tests.support import awaited, repeated, require

pytestmark = pytest.mark.real

PLATFORM = ("kubeflow-system", "volcano-system", "jobset-system")
NODES = ("worker-0", "worker-1", "worker-2")
LATE_REFUSALS = 3
"""Requests that may be refused because all leaders were deleted without notice, at one a second."""


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


def platform_pods(real: RealCluster, node: str) -> list[str]:
    """Return the pods of the platform on a node that are not being deleted."""
    found = []
    for namespace in PLATFORM:
        pods = real.cluster.get("pods", "-n", namespace, f"--field-selector=spec.nodeName={node}")["items"]
        found += [pod["metadata"]["name"] for pod in pods if "deletionTimestamp" not in pod["metadata"]]
    return found


def running_workers(real: RealCluster, name: str) -> dict[str, dict[str, Any]]:
    """Return the running pods of a TrainJob by uid, without those that are being deleted."""
    pods = [pod for pod in real.cluster.pods(name, "language") if "deletionTimestamp" not in pod["metadata"]]
    return {pod["metadata"]["uid"]: pod for pod in pods if pod["status"]["phase"] == "Running"}


def test_no_job_is_refused_or_lost_while_each_node_is_drained(real: RealCluster) -> None:
    """A job with real pods goes on throughout: those of a drained node are made again on the others."""
    again = runtime("drained", job={"backoffLimit": 6}, failurePolicy={"maxRestarts": 10})
    require(real.cluster.apply(again, job("throughout", code=GATED, workers=2, runtime=reference("drained"))))

    def both() -> dict[str, dict[str, Any]] | None:
        found = running_workers(real, "throughout")
        return found if len(found) == 2 else None

    first = awaited("two workers", both)
    evicted, counts = 0, []
    with repeated(submissions(real, "drain"), every=1.0) as submitted:
        for node in NODES:
            before, began = len(submitted), time.monotonic()
            evicted += len(platform_pods(real, node))
            options = ("--ignore-daemonsets", "--delete-emptydir-data", "--force", "--timeout=150s")
            require(real.cluster.kubectl("drain", node, *options, timeout=200))
            assert platform_pods(real, node) == []
            require(real.cluster.kubectl("uncordon", node))
            ready = ("wait", "--for=condition=Available", "deployments", "--all", "-A", "--timeout=120s")
            require(real.cluster.kubectl(*ready, timeout=150))
            awaited("two workers again", both, timeout=90)
            counts.append((len(submitted) - before, time.monotonic() - began))
    # A second between two, and what a command of kubectl takes on two busy cores.
    assert all(number >= seconds / 5 for number, seconds in counts), counts
    assert evicted >= 2 * len(PLATFORM), "every program has a pod on two of the nodes"
    for name, result in submitted:
        assert result.returncode == 0, (name, result.stderr)
    none_is_lost(real, [name for name, _ in submitted])
    last = running_workers(real, "throughout")
    assert not first.keys() & last.keys(), "each node was drained, so each worker was made again"
    for pod in last.values():
        open_gate(real.cluster, pod)
    real.cluster.condition("throughout", "language", "Complete")


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
        return running_workers(real, "steady")

    before = awaited("three workers", lambda: found if len(found := workers()) == 3 else None)
    former = leaders(real)
    assert {namespace for namespace, _ in former} == set(PLATFORM)
    with repeated(submissions(real, "kill"), every=1.0) as submitted:
        for program in ("kubelet", "containerd", "kube-apiserver"):
            kill_one(program)
            awaited("the API server", lambda: real.cluster.kubectl("get", "--raw", "/readyz").returncode == 0)
        of_programs = len(submitted)
        for (namespace, _), pod in former.items():
            force = ("--grace-period=0", "--force", "--ignore-not-found")
            require(real.cluster.kubectl("delete", "pod", pod, "-n", namespace, *force))
        awaited(
            "other leaders",
            lambda: (now := leaders(real)).keys() == former.keys() and not set(now.values()) & set(former.values()),
            timeout=90,
        )
        awaited("ready nodes", lambda: all_ready(real))
    refused = [(number, result.stderr) for number, (_, result) in enumerate(submitted) if result.returncode]
    assert len(refused) < len(submitted)
    others = [(number, text) for number, text in refused if not is_outage(text)]
    assert [each for each in others if each[0] < of_programs] == []
    # A pod that ends without notice is an address of its webhook until kube-proxy has removed it.
    assert len(others) <= LATE_REFUSALS, others
    none_is_lost(real, [name for name, result in submitted if result.returncode == 0])
    assert workers().keys() == before.keys()
    for pod in before.values():
        open_gate(real.cluster, pod)
    real.cluster.condition("steady", "language", "Complete")
    statuses = [each for pod in real.cluster.pods("steady", "language") for each in pod["status"]["containerStatuses"]]
    assert [each["restartCount"] for each in statuses] == [0, 0, 0]
    require(real.cluster.apply(job("after-all")))
    real.cluster.condition("after-all", "language", "Complete")


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
