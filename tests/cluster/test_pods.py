"""Evictions of the platform's pods: a single replica never blocks a drain, several leave one at a time."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest

from tests.support import LiveCluster, awaited, require

pytestmark = pytest.mark.cluster

CONTROLLER, SINGLE = "kubeflow-trainer-controller-manager", "jobset-controller-manager"


def pods(platform: LiveCluster, name: str) -> list[tuple[str, str]] | None:
    """Return namespace and name of each pod of a Deployment once its budget permits an eviction."""
    budgets = platform.get("poddisruptionbudgets", "-A")["items"]
    status = next(each["status"] for each in budgets if each["metadata"]["name"] == name)
    if status.get("disruptionsAllowed") != 1 or status.get("currentHealthy") != status.get("expectedPods"):
        return None
    found = platform.get("pods", "-A", "-l", f"app.kubernetes.io/name={name}")["items"]
    return [(each["metadata"]["namespace"], each["metadata"]["name"]) for each in found]


def evict(platform: LiveCluster, namespace: str, name: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """Evict a pod as a drain does."""
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": name, "namespace": namespace},
        "deleteOptions": options,
    }
    path = f"/api/v1/namespaces/{namespace}/pods/{name}/eviction"
    return platform.kubectl("create", "--raw", path, "-f", "-", stdin=json.dumps(body))


def test_every_pod_of_the_platform_may_be_evicted(platform: LiveCluster) -> None:
    deployments = platform.get("deployments", "-A")["items"]
    assert len(deployments) == 6
    for deployment in deployments:
        name = deployment["metadata"]["name"]
        for namespace, pod in awaited(f"budget of {name}", lambda name=name: pods(platform, name), timeout=90):
            require(evict(platform, namespace, pod, dryRun=["All"]))


def test_replicas_are_evicted_one_at_a_time(platform: LiveCluster) -> None:
    first, second = awaited("two replicas", lambda: pods(platform, CONTROLLER), timeout=90)
    require(evict(platform, *first))
    refused = evict(platform, *second)
    assert refused.returncode
    assert "disruption budget" in refused.stderr
    assert second in awaited("two replicas again", lambda: pods(platform, CONTROLLER), timeout=90)


def test_the_only_replica_is_evicted_and_replaced(platform: LiveCluster) -> None:
    (only,) = awaited("the replica", lambda: pods(platform, SINGLE), timeout=90)
    require(evict(platform, *only))

    def replaced() -> bool:
        return pods(platform, SINGLE) not in (None, [only])

    awaited("its replacement", replaced, timeout=90)
