"""An upgrade of Trainyard from the latest release, whose controller has started jobs: they run on and complete."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

from tests.cluster.former_platform import checkout, install
from tests.cluster.jobs import lasting, train_job
from tests.components.release_changes import KEPT_KINDS, Change, releases, review_of
from tests.components.release_record import FOLDER
from tests.conftest import live
from tests.support import LiveCluster, awaited, environment, require, trainyard

pytestmark = pytest.mark.cluster

RELEASE = releases()[-1]
DURATION = "trainyard.dev/simulated-duration"
OURS = "trainyard.dev/"
PLURALS = ("clustertrainingruntimes", "crd", "hypernodes", "namespaces", "priorityclasses", "pv", "queues")


@pytest.fixture(scope="module")
def released(state_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LiveCluster, Path]]:
    """A platform as the release left it, and the code of its controller."""
    folder = tmp_path_factory.mktemp("former")
    code = checkout(RELEASE, folder)
    settings = yaml.safe_load((FOLDER / f"{RELEASE}.yaml").read_text())["stacks"]["local"]["settings"]
    settings["cluster"]["name"] = "former"
    config = folder / "Pulumi.local.yaml"
    config.write_text(yaml.safe_dump({"config": {f"trainyard:{key}": value for key, value in settings.items()}}))
    env = environment(state_home)
    try:
        require(trainyard("cluster", "up", "--name", "former", env=env))
        cluster = live("former", config, env)
        install(cluster, RELEASE, folder, code)
        yield cluster, code
    finally:
        trainyard("cluster", "down", "--name", "former", "--delete", env=env)


def controllers(code: Path) -> list[int]:
    """Return the processes of a controller of some code."""
    found = []
    for process in psutil.process_iter(["environ"]):
        variables = process.info["environ"] or {}  # None: another user's
        if variables.get("PYTHONPATH", "").lstrip("/") == str(code).lstrip("/"):
            found.append(process.pid)
    return found


def patched(cluster: LiveCluster, kind: str, namespace: str, name: str, patch: Any, *options: str) -> None:
    require(cluster.kubectl("patch", kind, name, "-n", namespace, "--type=merge", "-p", json.dumps(patch), *options))


def running(cluster: LiveCluster, job: str, namespace: str) -> list[str]:
    """Return the pods of a gang of two once both run."""

    def probe() -> list[str] | None:
        pods = cluster.pods(job, namespace)
        up = len(pods) == 2 and all(pod["status"]["phase"] == "Running" for pod in pods)
        return sorted(pod["metadata"]["uid"] for pod in pods) if up else None

    return awaited(f"the gang of {job} to run", probe, timeout=90)


def uids(cluster: LiveCluster) -> dict[str, str]:
    """Return the uids of the objects that jobs use, by kind and name."""
    found = {}
    for plural in PLURALS:
        for each in cluster.get(plural)["items"]:
            found[f"{each['kind']}/{each['metadata']['name']}"] = each["metadata"]["uid"]
    return found


def previewed(cluster: LiveCluster) -> list[Change]:
    """Return the changes that a preview lists."""
    text = require(cluster.trainyard("preview", "--config-file", str(cluster.config_file), "-o", "json"))
    return [Change(each["operation"], each["resource"], str(each["fields"])) for each in json.loads(text)["changes"]]


def test_an_upgrade_keeps_jobs_and_what_they_use(released: tuple[LiveCluster, Path]) -> None:
    former, code = released
    duration = lasting("1h")
    through = train_job("through", "vision", "torch-distributed-gang", runtimePatches=[duration])
    parked = train_job("parked", "language", "torch-distributed-gang", suspend=True, runtimePatches=[duration])
    for body in (through, parked):  # `up` waits until the quotas are counted; the recorded program does not
        awaited("the tenant to submit", lambda body=body: former.apply(body).returncode == 0)
    pods = running(former, "through", "vision")
    former.condition("parked", "language", "Suspended")
    assert controllers(code)
    assert not labeled(former, "through", "vision")
    before = uids(former)

    planned = previewed(former)
    deletions = [Change("removed", each.name) for each in planned if each.change.startswith("delete")]
    reviews = review_of(RELEASE)
    assert [each for each in deletions if not any(review.covers(each) for review in reviews)] == []
    assert [each for each in planned if "replace" in each.change] == []
    require(former.trainyard("up", "--yes", "--config-file", str(former.config_file)))

    after = uids(former)
    assert {name: after.get(name) for name in before} == before
    assert {name.partition("/")[0] for name in before} >= KEPT_KINDS - {"PersistentVolumeClaim"}
    assert running(former, "through", "vision") == pods
    awaited("the label of the watch", lambda: labeled(former, "through", "vision"))
    awaited("the former controller to end", lambda: not controllers(code))

    patched(former, "trainjob", "language", "parked", {"spec": {"suspend": False}})
    running(former, "parked", "language")
    for namespace, job in (("vision", "through"), ("language", "parked")):
        require(former.kubectl("annotate", "pods", "--all", "-n", namespace, "--overwrite", f"{DURATION}=1s"))
        former.condition(job, namespace, "Complete")
    assert sorted(pod["metadata"]["uid"] for pod in former.pods("through", "vision")) == pods
    assert previewed(former) == []


def labeled(cluster: LiveCluster, job: str, namespace: str) -> bool:
    """Return whether a controller has adopted a JobSet."""
    labels = cluster.get("jobset", job, "-n", namespace)["metadata"].get("labels") or {}
    return f"{OURS}train-job" in labels
