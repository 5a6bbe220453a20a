"""A component moves to the current pin under a running job; destroy leaves nothing, and all is made again after it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cluster.jobs import lasting, train_job
from tests.conftest import live
from tests.support import LiveCluster, awaited, environment, require, stack_file, trainyard
from trainyard.policy.engines.vap.facts import policy_facts_in

pytestmark = pytest.mark.cluster
OLDER_JOBSET, CURRENT_JOBSET = "0.11.1", "0.12.0"
DURATION = "trainyard.dev/simulated-duration"

KINDS = (
    "clusterrolebindings",
    "clusterroles",
    "customresourcedefinitions",
    "flowschemas",
    "mutatingwebhookconfigurations",
    "namespaces",
    "persistentvolumes",
    "priorityclasses",
    "prioritylevelconfigurations",
    "validatingadmissionpolicies",
    "validatingadmissionpolicybindings",
    "validatingwebhookconfigurations",
)


def inventory(cluster: LiveCluster) -> dict[str, set[str]]:
    """Return the names of all objects that live outside namespaces, by kind."""
    return {kind: {item["metadata"]["name"] for item in cluster.get(kind)["items"]} for kind in KINDS}


@pytest.fixture(scope="module")
def before_up() -> dict[str, set[str]]:
    """What the control plane held before the program ran."""
    return {}


@pytest.fixture(scope="module")
def older(
    state_home: Path, tmp_path_factory: pytest.TempPathFactory, before_up: dict[str, set[str]]
) -> Iterator[LiveCluster]:
    """A platform with the previous JobSet."""

    def previous(config: dict[str, Any]) -> None:
        config["trainyard:jobset"] = {"version": OLDER_JOBSET}

    env, config = environment(state_home), stack_file(tmp_path_factory.mktemp("older"), "older", previous)
    try:
        require(trainyard("cluster", "up", "--name", "older", env=env))
        cluster = live("older", config, env)
        before_up |= inventory(cluster)
        require(cluster.trainyard("up", "--yes", "--config-file", str(config)))
        yield cluster
    finally:
        trainyard("cluster", "down", "--name", "older", "--delete", env=env)


def jobset_version(cluster: LiveCluster) -> str | None:
    status = cluster.status()
    process = next((p for p in status["processes"] if p["name"] == "jobset"), None)
    return process["version"] if process and process["health"] == "healthy" else None


def test_an_upgrade_replaces_nothing_and_the_running_job_completes(older: LiveCluster) -> None:
    awaited("the previous JobSet", lambda: jobset_version(older) == OLDER_JOBSET)
    job = train_job("through", "vision", "torch-distributed-gang", runtimePatches=[lasting("1h")])
    require(older.apply(job))

    def running() -> list[str] | None:
        pods = older.pods("through", "vision")
        return (
            [pod["metadata"]["uid"] for pod in pods]
            if len(pods) == 2 and all(p["status"]["phase"] == "Running" for p in pods)
            else None
        )

    before = awaited("the gang to run", running, timeout=90)
    queue = older.get("queue", "vision")["metadata"]["uid"]

    document = yaml.safe_load(older.config_file.read_text())
    document["config"]["trainyard:jobset"] = {"version": CURRENT_JOBSET}
    older.config_file.write_text(yaml.safe_dump(document, sort_keys=False))
    preview = json.loads(require(older.trainyard("preview", "--config-file", str(older.config_file), "-o", "json")))
    assert {change["operation"] for change in preview["changes"]} <= {"create", "update"}, preview["changes"]
    require(older.trainyard("up", "--yes", "--config-file", str(older.config_file)))

    awaited("the current JobSet", lambda: jobset_version(older) == CURRENT_JOBSET)
    assert {pod["status"]["phase"] for pod in older.pods("through", "vision")} == {"Running"}
    require(older.kubectl("annotate", "pods", "--all", "-n", "vision", "--overwrite", f"{DURATION}=1s"))
    older.condition("through", "vision", "Complete")
    assert [pod["metadata"]["uid"] for pod in older.pods("through", "vision")] == before
    assert older.get("queue", "vision")["metadata"]["uid"] == queue
    assert older.get("queue", "vision")["spec"]["parent"] == "research"


def test_destroy_leaves_no_object_no_webhook_and_no_finalizer(
    older: LiveCluster, before_up: dict[str, set[str]]
) -> None:
    require(older.apply(train_job("leftover", "vision", "torch-distributed-gang", suspend=True)))
    require(older.trainyard("destroy", "--config-file", str(older.config_file), "--yes"))
    assert inventory(older) == before_up
    assert policy_facts_in(older.get("namespace", "kube-system")["metadata"].get("annotations")) == {}
    status = older.status()
    assert status["healthy"] is True


def test_a_platform_that_was_destroyed_is_made_again_and_runs_a_job(older: LiveCluster) -> None:
    file, name = ("--config-file", str(older.config_file)), ("--name", older.name)
    require(older.trainyard("up", "--yes", *file))
    require(older.trainyard("cluster", "down", *name))
    assert "Complete" in require(older.trainyard("quickstart", *file))
    require(older.trainyard("cluster", "down", *name))
    require(older.trainyard("cluster", "up", *name))
    require(older.apply(train_job("first", "vision", "torch-distributed", nodes=1, runtimePatches=[lasting("1s")])))
    # JobSet's leader and the simulated nodes wait until the leases of those before them have ended.
    older.condition("first", "vision", "Complete")
