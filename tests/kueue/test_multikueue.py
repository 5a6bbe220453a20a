"""TrainJobs that are submitted to one cluster and run in another, with Trainyard and the real Kueue in both."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from typing import Any

import pytest
import yaml

from tests.conftest import live
from tests.kueue.conftest import with_kueue
from tests.kueue.test_lifecycle import LONG, NAMESPACE, condition, job, running, suspended, used, workloads
from tests.support import ROOT, LiveCluster, awaited, environment, require, stack_file, trainyard
from trainyard.api.constants import API_VERSION

pytestmark = pytest.mark.cluster

FRAMEWORK = "trainer.kubeflow.org/framework"
WORKER, SYSTEM = "worker", "kueue-system"
MANAGED_BY = "kueue.x-k8s.io/multikueue"
ORIGIN, PREBUILT = "kueue.x-k8s.io/multikueue-origin", "kueue.x-k8s.io/prebuilt-workload-name"


def as_manager(config: dict[str, Any]) -> None:
    """Change the settings of the local stack to those of a cluster whose jobs run in another."""
    with_kueue(config)
    section = config["trainyard:kueue"]
    section["multiKueue"] = {"clusters": {WORKER: {}}, "origin": "manager"}
    section["clusterQueues"]["vision"]["multiKueueClusters"] = [WORKER]
    del section["waitForPodsReady"]


def documented_objects(text: str) -> list[dict[str, Any]]:
    """Return the objects of the example in docs/kueue.md that contains a text."""
    blocks = re.findall(r"^```yaml\n(.*?)^```$", (ROOT / "docs" / "kueue.md").read_text(), re.MULTILINE | re.DOTALL)
    (found,) = [block for block in blocks if text in block]
    return list(yaml.safe_load_all(found))


def kubeconfig(worker: LiveCluster) -> dict[str, Any]:
    """Return a kubeconfig of the documented account in the worker cluster."""
    require(worker.apply(*documented_objects("name: multikueue\n")))
    token = awaited(
        "the token", lambda: (worker.get("secret", "multikueue", "-n", SYSTEM).get("data") or {}).get("token")
    )
    found: dict[str, Any] = json.loads(
        require(worker.kubectl("config", "view", "--raw", "--flatten", "--minify", "-o", "json"))
    )
    found["users"] = [{"name": "multikueue", "user": {"token": base64.b64decode(token).decode()}}]
    found["contexts"][0]["context"]["user"] = "multikueue"
    return found


def active(cluster: LiveCluster, kind: str, name: str) -> bool:
    conditions = cluster.get(kind, name).get("status", {}).get("conditions", [])
    return any((each["type"], each["status"]) == ("Active", "True") for each in conditions)


@pytest.fixture(scope="module")
def manager(
    request: pytest.FixtureRequest, kueue_platform: LiveCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LiveCluster]:
    """A cluster whose queue sends its jobs to the cluster of the other tests."""
    env = environment(request.getfixturevalue("state_home"))
    config = stack_file(tmp_path_factory.mktemp("manager"), "manager", as_manager)
    with ExitStack() as ends:
        ends.callback(trainyard, "cluster", "down", "--name", "manager", "--delete", env=env)
        require(trainyard("cluster", "up", "--name", "manager", env=env))
        cluster = live("manager", config, env)
        require(cluster.trainyard("up", "--yes", "--config-file", str(config)))
        secret = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": WORKER, "namespace": SYSTEM},
            "stringData": {"kubeconfig": json.dumps(kubeconfig(kueue_platform))},
        }
        require(cluster.apply(secret))
        for kind, name in (("multikueuecluster", WORKER), ("admissioncheck", "vision"), ("clusterqueue", "vision")):
            awaited(f"{kind} {name} to be active", partial(active, cluster, kind, name))
        yield cluster


@pytest.fixture
def submit(manager: LiveCluster, kueue_platform: LiveCluster) -> Iterator[Callable[[dict[str, Any]], None]]:
    """Submit a TrainJob to the manager, and delete it after the test."""
    names: list[str] = []

    def create(body: dict[str, Any]) -> None:
        names.append(body["metadata"]["name"])
        require(manager.apply(body))

    yield create
    manager.kubectl("delete", "trainjobs", *names, "-n", NAMESPACE, "--ignore-not-found")
    awaited("the Workloads to go", lambda: not workloads(manager) and not workloads(kueue_platform))


def train_job(cluster: LiveCluster, name: str) -> dict[str, Any] | None:
    found: dict[str, Any] | None = cluster.get("trainjob", name, "-n", NAMESPACE)
    return found


def test_a_job_runs_on_the_worker_and_its_status_comes_back(
    manager: LiveCluster, kueue_platform: LiveCluster, submit: Callable[[dict[str, Any]], None]
) -> None:
    submit(job("remote", annotations={"trainyard.dev/simulated-duration": "30s"}))
    assert (train_job(manager, "remote") or {})["spec"]["managedBy"] == MANAGED_BY
    running(kueue_platform, "remote", 2)
    copy = train_job(kueue_platform, "remote") or {}
    assert copy["metadata"]["labels"][ORIGIN] == "manager"
    assert copy["metadata"]["labels"][PREBUILT] == workloads(manager)[0]["metadata"]["name"]
    assert copy["spec"]["managedBy"] == "trainer.kubeflow.org/trainjob-controller"

    def mirrored() -> bool:
        here, there = ((train_job(each, "remote") or {}).get("status") or {} for each in (manager, kueue_platform))
        equal = all(here.get(key) == there.get(key) for key in ("conditions", "jobsStatus"))
        return equal and any(each.get("ready") for each in here.get("jobsStatus", []))

    awaited("the status of the worker", mirrored)
    awaited("the quota to be counted", lambda: used(manager) == used(kueue_platform) == 16)
    assert manager.get("jobsets", "-n", NAMESPACE)["items"] == manager.pods("remote", NAMESPACE) == []
    manager.condition("remote", NAMESPACE, "Complete")
    assert condition(manager, "remote", "Finished")["reason"] == "Succeeded"
    awaited("the copy to go", lambda: train_job(kueue_platform, "remote") is None)
    status = (train_job(manager, "remote") or {})["status"]
    assert [(each["name"], each["succeeded"]) for each in status["jobsStatus"]] == [("node", 1)]


def test_deletion_reaches_the_worker(
    manager: LiveCluster, kueue_platform: LiveCluster, submit: Callable[[dict[str, Any]], None]
) -> None:
    submit(job("deleted", annotations=LONG))
    running(kueue_platform, "deleted", 2)
    require(manager.kubectl("delete", "trainjob", "deleted", "-n", NAMESPACE))
    awaited("the copy to go", lambda: train_job(kueue_platform, "deleted") is None)
    awaited("no pods", lambda: not kueue_platform.pods("deleted", NAMESPACE))
    awaited("the Workloads to go", lambda: not workloads(manager) and not workloads(kueue_platform))
    awaited("the quota to be free", lambda: used(manager) == 0)
    awaited("the worker's quota to be free", lambda: used(kueue_platform) == 0)


def test_a_job_that_is_deactivated_stops_on_the_worker(
    manager: LiveCluster, kueue_platform: LiveCluster, submit: Callable[[dict[str, Any]], None]
) -> None:
    submit(job("stopped", annotations=LONG))
    running(kueue_platform, "stopped", 2)
    target = ("workloads.kueue.x-k8s.io", workloads(manager)[0]["metadata"]["name"], "-n", NAMESPACE)
    require(manager.kubectl("patch", *target, "--type=merge", "-p", '{"spec": {"active": false}}'))
    awaited("the copy to go", lambda: train_job(kueue_platform, "stopped") is None)
    awaited("no pods", lambda: not kueue_platform.pods("stopped", NAMESPACE))
    awaited("the quota to be free", lambda: suspended(manager, "stopped") and used(manager) == 0)


def test_a_job_whose_runtime_differs_in_the_worker_is_not_started(
    manager: LiveCluster, kueue_platform: LiveCluster, submit: Callable[[dict[str, Any]], None]
) -> None:
    for cluster, nodes in ((manager, 1), (kueue_platform, 2)):
        spec = cluster.get("clustertrainingruntime", "torch-distributed")["spec"]
        spec["mlPolicy"]["numNodes"] = nodes
        metadata = {"name": "differing", "namespace": NAMESPACE, "labels": {FRAMEWORK: "torch"}}
        body = {"apiVersion": API_VERSION, "kind": "TrainingRuntime", "metadata": metadata, "spec": spec}
        require(cluster.apply(body))
    wanted = job("different")
    wanted["spec"]["runtimeRef"] = {"name": "differing", "kind": "TrainingRuntime"}
    del wanted["spec"]["trainer"]["numNodes"]
    submit(wanted)
    assert condition(manager, "different", "Finished")["reason"] == "OutOfSync"
    assert kueue_platform.pods("different", NAMESPACE) == []


def test_the_accounts_have_every_permission_that_kueue_asks_for(
    manager: LiveCluster, kueue_platform: LiveCluster
) -> None:
    for cluster in (manager, kueue_platform):
        log = require(cluster.trainyard("cluster", "logs", "kueue", "--name", cluster.name, "-n", "100000"))
        assert "is forbidden" not in log
