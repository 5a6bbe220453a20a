"""The policy server beside the controller: asked about what is made of a job, and a refusal when it is away."""

from __future__ import annotations

import contextlib
import os
import signal
from typing import Any

import pytest

from tests.cluster.jobs import lasting, train_job
from tests.support import LiveCluster, awaited, require

pytestmark = pytest.mark.cluster


def runtime(platform: LiveCluster, name: str, **pod: Any) -> dict[str, Any]:
    """Return a runtime of the platform's administrators: a shipped one whose pods ask for 8 GPUs."""
    body: dict[str, Any] = platform.get("clustertrainingruntime", "torch-distributed")
    body["metadata"] = {"name": name, "labels": {"trainer.kubeflow.org/framework": "torch"}}
    (job,) = body["spec"]["template"]["spec"]["replicatedJobs"]
    template = job["template"]["spec"]["template"]["spec"]
    template |= pod
    template["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": "8"}}
    return body


def small_job(name: str, namespace: str, runtime_name: str, nodes: int = 1, **spec: Any) -> dict[str, Any]:
    """Return a TrainJob that takes everything but the number of nodes from its runtime."""
    body = train_job(name, namespace, runtime_name, **spec)
    body["spec"]["trainer"] = {"numNodes": nodes, "command": ["torchrun", "-m", "train"]}
    return body


def test_a_ceiling_that_runtime_and_job_break_only_together_is_refused_by_the_webhook(platform: LiveCluster) -> None:
    require(platform.apply(runtime(platform, "eight-gpus")))
    patch = {
        "manager": "example.com/tests",
        "trainingRuntimeSpec": {"template": {"metadata": {"annotations": {"example.com/purpose": "test"}}}},
    }
    refused = platform.apply(small_job("over", "language", "eight-gpus", 5, runtimePatches=[patch]))
    assert refused.returncode != 0
    assert "validator.trainjob.trainer.kubeflow.org" in refused.stderr
    assert "ACC-002 JobSet over" in refused.stderr
    assert platform.get("trainjob", "over", "-n", "language") is None
    require(platform.apply(small_job("within", "language", "eight-gpus", 4, suspend=True)))


def test_a_priority_class_of_the_runtime_is_the_tenants_matter(platform: LiveCluster) -> None:
    require(platform.apply(runtime(platform, "urgent", priorityClassName="training-urgent")))
    refused = platform.apply(small_job("urgent", "language", "urgent"))
    assert refused.returncode != 0
    assert "TEN-003" in refused.stderr
    assert "JobSet urgent" in refused.stderr
    require(platform.apply(small_job("urgent", "vision", "urgent", suspend=True)))


def test_without_the_policy_server_nothing_new_comes_in_and_what_runs_goes_on(platform: LiveCluster) -> None:
    job = small_job("gate-steady", "vision", "torch-distributed")
    job["spec"]["runtimePatches"] = [lasting("150s")]
    require(platform.apply(job))
    awaited("a running pod", lambda: [pod for pod in platform.pods("gate-steady", "vision") if _running(pod)])
    (before,) = (pod["metadata"]["uid"] for pod in platform.pods("gate-steady", "vision"))

    servers = platform.policy_servers()
    assert servers
    refused: list[str] = []

    def refusal() -> bool:
        for pid in platform.policy_servers():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        result = platform.apply(small_job("gate-meanwhile", "vision", "torch-distributed", suspend=True))
        if result.returncode == 0:
            platform.kubectl("delete", "trainjob", "gate-meanwhile", "-n", "vision")
        refused.append(result.stderr)
        return result.returncode != 0

    awaited("a refusal while the policy server is down", refusal)
    # A replica without its policy server is not ready, and gets no requests from the moment that this is known.
    assert "POL-000 No policy decision" in refused[-1] or "failed calling webhook" in refused[-1]
    assert [pod["metadata"]["uid"] for pod in platform.pods("gate-steady", "vision")] == [before]

    def comes_in() -> bool:
        result = platform.apply(small_job("gate-after", "vision", "torch-distributed", suspend=True))
        print(result.stderr)  # shown when the wait fails
        return result.returncode == 0

    awaited("the policy server that the supervisor started again", comes_in)
    assert not platform.policy_servers() & servers
    assert [pod["metadata"]["uid"] for pod in platform.pods("gate-steady", "vision")] == [before]


def _running(pod: dict[str, Any]) -> bool:
    return str(pod["status"].get("phase")) == "Running"
