"""TrainJobs in containers: suspension, failures, deadlines, limits of memory, gangs that wait, logs of the SDK."""

from __future__ import annotations

from typing import Any

import pytest

from tests.real.conftest import RealCluster
from tests.real.real_jobs import job
from tests.support import awaited, require

pytestmark = pytest.mark.real

WAIT = "import signal, sys; signal.signal(signal.SIGTERM, lambda *_: sys.exit(0)); signal.pause()"


def running(real: RealCluster, name: str) -> list[dict[str, Any]]:
    return [pod for pod in real.cluster.pods(name, "language") if pod["status"]["phase"] == "Running"]


def suspend(real: RealCluster, name: str, value: bool) -> None:
    patch = f'{{"spec": {{"suspend": {str(value).lower()}}}}}'
    require(real.cluster.kubectl("patch", "trainjob", name, "-n", "language", "--type=merge", "-p", patch))


def delete(real: RealCluster, name: str) -> None:
    require(real.cluster.kubectl("delete", "trainjob", name, "-n", "language", "--timeout=90s"))
    awaited("the end of the pods", lambda: not real.cluster.pods(name, "language") or None, timeout=60)


def test_a_suspended_job_has_no_container_and_runs_when_it_is_resumed(real: RealCluster) -> None:
    require(real.cluster.apply(job("paused", code=WAIT, workers=2, suspend=True)))
    real.cluster.condition("paused", "language", "Suspended")
    assert real.cluster.pods("paused", "language") == []
    suspend(real, "paused", False)
    awaited("two workers", lambda: len(running(real, "paused")) == 2 or None)
    suspend(real, "paused", True)
    awaited("no worker", lambda: not real.cluster.pods("paused", "language") or None)
    suspend(real, "paused", False)
    awaited("two workers again", lambda: len(running(real, "paused")) == 2 or None)
    delete(real, "paused")


def ends(real: RealCluster, name: str) -> list[dict[str, Any]]:
    """Return how containers of a job have ended, now or before their last start."""
    return [
        ended
        for pod in real.cluster.pods(name, "language")
        for status in pod["status"].get("containerStatuses", ())
        for state in ("state", "lastState")
        if (ended := status.get(state, {}).get("terminated"))
    ]


def test_a_container_that_fails_is_started_again(real: RealCluster) -> None:
    require(real.cluster.apply(job("failing", code="raise SystemExit(3)")))

    def restarts() -> int:
        pods = real.cluster.pods("failing", "language")
        return sum(status["restartCount"] for pod in pods for status in pod["status"].get("containerStatuses", ()))

    awaited("a restart", lambda: restarts() > 0 or None)
    assert {each["exitCode"] for each in ends(real, "failing")} == {3}
    delete(real, "failing")


def test_a_container_gets_no_more_memory_than_its_limit(real: RealCluster) -> None:
    resources = {"cpu": "200m", "memory": "64Mi"}
    code = "held = bytearray(256 << 20); held[::4096] = b'x' * len(held[::4096]); print('never')"
    require(real.cluster.apply(job("hungry", code=code, resources=resources)))

    awaited("OOMKilled", lambda: "OOMKilled" in {each["reason"] for each in ends(real, "hungry")} or None)
    delete(real, "hungry")


def test_a_job_ends_at_its_deadline(real: RealCluster) -> None:
    require(real.cluster.apply(job("late", code=WAIT, activeDeadlineSeconds=5)))
    condition = real.cluster.condition("late", "language", "Failed")
    assert condition["reason"] == "DeadlineExceeded"
    awaited("the end of the worker", lambda: not running(real, "late") or None)


def test_a_gang_that_does_not_fit_starts_no_worker_until_all_fit(real: RealCluster) -> None:
    half = {"cpu": "1"}
    require(real.cluster.apply(job("first", code=WAIT, workers=3, resources=half)))
    awaited("three workers", lambda: len(running(real, "first")) == 3 or None)
    require(real.cluster.apply(job("second", code=WAIT, workers=3, resources=half)))

    def unschedulable() -> bool:
        groups = real.cluster.get("podgroups", "-n", "language")["items"]
        return any(
            each["type"] == "Unschedulable"
            for group in groups
            if group["metadata"]["name"] == "second"
            for each in group.get("status", {}).get("conditions") or ()
        )

    awaited("the verdict of the scheduler", lambda: unschedulable() or None)
    assert running(real, "second") == []
    delete(real, "first")
    awaited("three workers of the second", lambda: len(running(real, "second")) == 3 or None)
    delete(real, "second")


def test_the_sdk_reads_the_logs_of_containers(real: RealCluster) -> None:
    from kubeflow.common.types import KubernetesBackendConfig
    from kubeflow.trainer import TrainerClient

    require(real.cluster.apply(job("logged", code="print('one'); print('two')")))
    real.cluster.condition("logged", "language", "Complete")
    client = TrainerClient(KubernetesBackendConfig(namespace="language", config_file=str(real.cluster.kubeconfig)))
    assert [line.strip() for line in client.get_job_logs("logged")] == ["one", "two"]
