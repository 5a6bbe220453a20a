"""A gang restarts as a whole while everything that looks after it starts again too."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest

from tests.cluster.jobs import train_job
from tests.support import LiveCluster, awaited, require

pytestmark = pytest.mark.cluster

NAME, TENANT = "restarted", "vision"
PROGRAMS = ("vc-scheduler", "vc-controller-manager", "jobset", "trainyard-controller")


def runtime(platform: LiveCluster) -> dict[str, Any]:
    """Return a runtime of the tenant: the shipped gang in one rack, which may be restarted and runs on."""
    body: dict[str, Any] = platform.get("clustertrainingruntime", "torch-distributed-gang")
    body |= {"kind": "TrainingRuntime", "metadata": {"name": NAME, "namespace": TENANT}}
    body["metadata"]["labels"] = {"trainer.kubeflow.org/framework": "torch"}
    jobset = body["spec"]["template"]["spec"]
    jobset["failurePolicy"] = {"maxRestarts": 3}
    job = jobset["replicatedJobs"][0]["template"]["spec"]
    job["backoffLimit"] = 0
    job["template"]["metadata"] = {"annotations": {"trainyard.dev/simulated-duration": "300s"}}
    return body


def running(platform: LiveCluster) -> dict[str, dict[str, Any]]:
    """Return the pods that run, by uid."""
    pods = [pod for pod in platform.pods(NAME, TENANT) if pod["status"].get("phase") == "Running"]
    return {pod["metadata"]["uid"]: pod for pod in pods if "deletionTimestamp" not in pod["metadata"]}


def kill(platform: LiveCluster) -> dict[str, int]:
    """End every replica of the programs without warning; return what ran."""
    found = platform.status(healthy=True)
    pids = {each["name"]: each["pid"] for each in found["processes"] if each["name"].removesuffix("-1") in PROGRAMS}
    for pid in pids.values():
        os.kill(pid, signal.SIGKILL)
    return pids


def test_a_restart_is_whole_and_in_one_rack_though_all_controllers_die_meanwhile(platform: LiveCluster) -> None:
    require(platform.apply(runtime(platform)))
    reference = {"kind": "TrainingRuntime", "name": NAME}
    require(platform.apply(train_job(NAME, TENANT, NAME, nodes=3, runtimeRef=reference)))
    try:
        before = awaited("the gang to run", lambda: found if len(found := running(platform)) == 3 else None)
        (victim, *_) = (pod["metadata"]["name"] for pod in before.values())
        failed = ("--subresource=status", "--type=merge", "-p", '{"status": {"phase": "Failed"}}')
        require(platform.kubectl("patch", "pod", victim, "-n", TENANT, *failed))
        assert set(kill(platform)) >= set(PROGRAMS)

        def again() -> dict[str, dict[str, Any]] | None:
            found = running(platform)
            return found if len(found) == 3 and not set(found) & set(before) else None

        after = awaited("the whole gang to run again", again, timeout=180)
        nodes = {pod["spec"]["nodeName"] for pod in after.values()}
        assert len(nodes) == 3
        racks = {platform.get("node", node)["metadata"]["labels"]["topology.trainyard.dev/rack"] for node in nodes}
        assert len(racks) == 1
        assert platform.get("jobset", NAME, "-n", TENANT)["status"]["restarts"] == 1
        conditions = platform.get("trainjob", NAME, "-n", TENANT)["status"].get("conditions", [])
        assert not [each for each in conditions if each["type"] == "Failed" and each["status"] == "True"]
    finally:
        for kind in ("trainjob", "trainingruntime"):
            platform.kubectl("delete", kind, NAME, "-n", TENANT, "--ignore-not-found")
