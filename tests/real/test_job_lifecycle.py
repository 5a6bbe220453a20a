"""TrainJobs in containers: suspension, failures, deadlines, limits of memory, gangs that wait, logs of the SDK."""

from __future__ import annotations

from typing import Any

import pytest

from tests.real.conftest import RealCluster
from tests.real.real_jobs import job
from tests.support import awaited, require

pytestmark = pytest.mark.real

WAIT = "import time; time.sleep(600)"


def running(real: RealCluster, name: str, namespace: str = "language") -> list[dict[str, Any]]:
    return [pod for pod in real.cluster.pods(name, namespace) if pod["status"]["phase"] == "Running"]


def suspend(real: RealCluster, name: str, value: bool) -> None:
    patch = f'{{"spec": {{"suspend": {str(value).lower()}}}}}'
    require(real.cluster.kubectl("patch", "trainjob", name, "-n", "language", "--type=merge", "-p", patch))


def delete(real: RealCluster, name: str, namespace: str = "language") -> None:
    require(real.cluster.kubectl("delete", "trainjob", name, "-n", namespace, "--timeout=90s"))
    awaited("the end of the pods", lambda: not real.cluster.pods(name, namespace) or None, timeout=60)


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


def test_a_container_that_fails_fails_its_job(real: RealCluster) -> None:
    require(real.cluster.apply(job("failing", code="raise SystemExit(3)")))
    real.cluster.condition("failing", "language", "Failed")
    codes = {
        status["state"]["terminated"]["exitCode"]
        for pod in real.cluster.pods("failing", "language")
        for status in pod["status"]["containerStatuses"]
    }
    assert codes <= {3}


def test_a_container_gets_no_more_memory_than_its_limit(real: RealCluster) -> None:
    resources = {"cpu": "200m", "memory": "32Mi"}
    code = "held = bytearray(256 << 20); held[::4096] = b'x' * len(held[::4096]); print('never')"
    require(real.cluster.apply(job("hungry", code=code, resources=resources)))

    def killed() -> bool:
        return any(
            (status.get("state", {}).get("terminated") or {}).get("reason") == "OOMKilled"
            for pod in real.cluster.pods("hungry", "language")
            for status in pod["status"].get("containerStatuses", ())
        )

    awaited("OOMKilled", lambda: killed() or None)
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
    require(real.cluster.apply(job("second", code=WAIT, workers=3, resources=half, namespace="vision")))

    def unschedulable() -> bool:
        groups = real.cluster.get("podgroups", "-n", "vision")["items"]
        return any(
            each["type"] == "Unschedulable" for group in groups for each in group["status"].get("conditions") or ()
        )

    awaited("the verdict of the scheduler", lambda: unschedulable() or None)
    assert running(real, "second", "vision") == []
    delete(real, "first")
    awaited("three workers of the second", lambda: len(running(real, "second", "vision")) == 3 or None)
    delete(real, "second", "vision")


def test_the_sdk_reads_the_logs_of_containers(real: RealCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    from kubeflow.common.types import KubernetesBackendConfig
    from kubeflow.trainer import TrainerClient

    monkeypatch.setenv("KUBECONFIG", str(real.cluster.kubeconfig))
    require(real.cluster.apply(job("logged", code="print('one'); print('two')")))
    real.cluster.condition("logged", "language", "Complete")
    client = TrainerClient(KubernetesBackendConfig(namespace="language"))
    assert [line.strip() for line in client.get_job_logs("logged")] == ["one", "two"]
