"""Two replicas of the controller: a crash, a deleted pod and a roll-out of one reject no request."""

from __future__ import annotations

import os
import signal
import subprocess

import pytest
import yaml

from tests.cluster.jobs import train_job
from tests.support import LiveCluster, awaited, repeated, require

pytestmark = pytest.mark.cluster

PROGRAM, NAMESPACE, DEPLOYMENT = (
    "trainyard-controller",
    "kubeflow-system",
    "deployment/kubeflow-trainer-controller-manager",
)


@pytest.fixture
def replicas(platform: LiveCluster) -> dict[str, int]:
    """Pids of two healthy replicas, by process."""
    return scaled(platform, 2)


def scaled(platform: LiveCluster, replicas: int) -> dict[str, int]:
    require(platform.kubectl("scale", DEPLOYMENT, "-n", NAMESPACE, f"--replicas={replicas}"))
    return awaited(f"{replicas} healthy replicas", lambda: healthy(platform, replicas), timeout=90)


def healthy(platform: LiveCluster, replicas: int) -> dict[str, int] | None:
    """Return the pids of the replicas once there are that many, all healthy, and as many ready pods."""
    found = platform.status()
    own = [each for each in found["processes"] if each["name"].startswith(PROGRAM)]
    status = platform.get(DEPLOYMENT, "-n", NAMESPACE)["status"]
    ready = status.get("readyReplicas") == status.get("replicas") == replicas and not status.get("unavailableReplicas")
    if len(own) != replicas or not ready or any(each["health"] != "healthy" for each in own):
        return None
    return {each["name"]: each["pid"] for each in own}


def create(platform: LiveCluster) -> subprocess.CompletedProcess[str]:
    """Send a TrainJob through admission: both webhooks review it, nothing is stored."""
    body = yaml.safe_dump(train_job("admitted", "vision", "torch-distributed-gang"))
    return platform.kubectl("create", "--dry-run=server", "-f", "-", stdin=body)


def test_each_replica_has_a_process_a_log_and_a_ready_pod(platform: LiveCluster, replicas: dict[str, int]) -> None:
    assert set(replicas) == {PROGRAM, f"{PROGRAM}-1"}
    logs = [require(platform.trainyard("cluster", "logs", name, "--name", platform.name)) for name in replicas]
    assert all("webhook" in log for log in logs)
    assert set(scaled(platform, 3)) == {PROGRAM, f"{PROGRAM}-1", f"{PROGRAM}-2"}
    assert set(scaled(platform, 2)) == {PROGRAM, f"{PROGRAM}-1"}


def test_a_killed_replica_rejects_no_request_and_starts_again(platform: LiveCluster, replicas: dict[str, int]) -> None:
    for name, pid in replicas.items():
        require(create(platform))
        os.kill(pid, signal.SIGKILL)
        for _ in range(5):
            require(create(platform))
        after = awaited("both replicas", lambda: healthy(platform, 2), timeout=90)
        assert after[name] != pid


def test_a_deleted_pod_gets_a_new_process_as_on_any_node(platform: LiveCluster, replicas: dict[str, int]) -> None:
    name = pods(platform)[0]
    with repeated(lambda: create(platform), every=1.0) as answers:
        require(platform.kubectl("delete", "pod", name, "-n", NAMESPACE))
        after = awaited("both replicas", lambda: healthy(platform, 2), timeout=90)
    assert len(set(after.values()) & set(replicas.values())) == 1
    for answer in answers:
        require(answer)


def test_a_rollout_under_one_create_a_second_loses_no_request(platform: LiveCluster, replicas: dict[str, int]) -> None:
    with repeated(lambda: create(platform), every=1.0) as answers:
        require(platform.kubectl("rollout", "restart", DEPLOYMENT, "-n", NAMESPACE))
        require(platform.kubectl("rollout", "status", DEPLOYMENT, "-n", NAMESPACE, timeout=300))
        after = awaited("both replicas", lambda: healthy(platform, 2), timeout=90)
        # The last old process has ended: its pod is gone.
        awaited("two pods", lambda: len(pods(platform)) == 2, timeout=60)
    assert not set(after.values()) & set(replicas.values())
    assert len(answers) >= 5
    for answer in answers:
        require(answer)


def pods(platform: LiveCluster) -> list[str]:
    found = platform.get("pods", "-n", NAMESPACE, "-l", f"trainyard.dev/host-process={PROGRAM}")["items"]
    return [pod["metadata"]["name"] for pod in found]
