"""Provider kind with the real command and engine: nodes, the platform with its webhooks, one job, restart, removal."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.real.isolated import RUN
from tests.real.real_jobs import job
from tests.support import LiveCluster, environment, require, stack_file, trainyard
from trainyard.local.cluster.kind import OWN_NODE_IMAGE

pytestmark = pytest.mark.real

NAME = "trainyard"
WORKERS = [f"{NAME}-worker2", f"{NAME}-worker3"]


def _two_workers(config: dict[str, Any]) -> None:
    rack = {"name": "rack-0", "nodes": WORKERS}
    config["trainyard:fabric"]["domains"] = [{"name": "spine-0", "domains": [rack]}]
    for queue in config["trainyard:queues"].values():
        queue["deserved"] = {"cpu": "2"}


def engine(*arguments: str) -> str:
    """Run a command of podman or docker."""
    command = [os.environ["KIND_EXPERIMENTAL_PROVIDER"], *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.fixture(scope="module")
def kind(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveCluster]:
    """The stack of provider kind with two workers, in its own namespaces."""
    if os.environ.get(RUN) != "kind":
        pytest.fail("this test needs namespaces of its own: use `make test-kind`")
    env = environment(tmp_path_factory.mktemp("state"))
    config = stack_file(tmp_path_factory.mktemp("kind"), NAME, _two_workers, stack="kind")
    require(trainyard("images", "load", "kind-node", "--into", os.environ["KIND_EXPERIMENTAL_PROVIDER"], env=env))
    assert engine("image", "inspect", OWN_NODE_IMAGE)
    done = trainyard("quickstart", "--stack", "kind", "--config-file", str(config), env=env)
    try:
        require(done)
        exported = json.loads(require(trainyard("cluster", "env", *options(), "-o", "json", env=env)))
        yield LiveCluster(NAME, config, env | exported)
    finally:
        trainyard("cluster", "down", "--delete", *options(), env=env)


def options() -> tuple[str, ...]:
    return ("--stack", "kind", "--name", NAME)


def pods(cluster: LiveCluster, *arguments: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = cluster.get("pods", *arguments)["items"]
    return found


def test_every_node_is_ready_and_has_the_labels_of_the_fabric(kind: LiveCluster) -> None:
    nodes = {node["metadata"]["name"]: node for node in kind.get("nodes")["items"]}
    assert sorted(nodes) == [f"{NAME}-control-plane", f"{NAME}-worker", *WORKERS]
    for name in WORKERS:
        labels = nodes[name]["metadata"]["labels"]
        assert labels["topology.trainyard.dev/rack"] == "rack-0"
        assert labels["trainyard.dev/fabric-node"] == name


def test_every_pod_of_the_cluster_and_the_platform_is_ready(kind: LiveCluster) -> None:
    for namespace in ("kube-system", "jobset-system", "kubeflow-system", "volcano-system"):
        for pod in pods(kind, "--namespace", namespace):
            states = pod["status"].get("containerStatuses") or [{"ready": False}]
            assert all(each["ready"] for each in states), pod["metadata"]["name"]


def test_the_smoke_job_ran_on_both_workers_and_its_ranks_met_by_name(kind: LiveCluster) -> None:
    done = pods(kind, "--namespace", "language", "--selector", "jobset.sigs.k8s.io/jobset-name=smoke")
    assert {pod["status"]["phase"] for pod in done} == {"Succeeded"}
    for pod in done:
        logs = require(kind.kubectl("logs", "--namespace", "language", pod["metadata"]["name"]))
        assert "the sum of all ranks is" in logs


def test_a_stopped_cluster_starts_again_and_runs_jobs(kind: LiveCluster) -> None:
    require(trainyard("cluster", "down", *options(), env=kind.env))
    assert engine("ps", "--quiet") == ""
    require(trainyard("cluster", "up", *options(), env=kind.env))
    require(kind.apply(job("again")))
    kind.condition("again", "language", "Complete")


def test_nothing_remains_after_its_removal(kind: LiveCluster) -> None:
    require(trainyard("cluster", "down", "--delete", *options(), env=kind.env))
    assert engine("ps", "--all", "--quiet") == ""
    assert engine("volume", "ls", "--quiet") == ""
    assert not (Path(kind.env["TRAINYARD_STATE_HOME"]) / "clusters" / NAME).exists()
