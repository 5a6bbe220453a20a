"""What belongs to others, what must not be deleted, and what was changed behind the program's back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conftest import live
from tests.support import LiveCluster, environment, require, stack_file, trainyard

pytestmark = pytest.mark.cluster

CLASS, NAMESPACE = "training", "jobset-system"
"""A PriorityClass and a namespace under names of ours that another owner made before."""

QUOTA = ("resourcequota", "-n", "vision")


@pytest.fixture(scope="module")
def owned(state_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveCluster]:
    """A control plane with nothing installed but two objects of another owner."""
    env, config = environment(state_home), stack_file(tmp_path_factory.mktemp("owned"), "owned")
    try:
        require(trainyard("cluster", "up", "--name", "owned", env=env))
        cluster = live("owned", config, env)
        priority = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
        priority |= {"value": 1000, "preemptionPolicy": "Never"}  # which may not be changed later
        home = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": {"owner": "other"}}}
        require(cluster.apply({**priority, "metadata": {"name": CLASS}}, home))
        yield cluster
    finally:
        trainyard("cluster", "down", "--name", "owned", "--delete", env=env)


def configure(cluster: LiveCluster, **settings: Any) -> None:
    document = yaml.safe_load(cluster.config_file.read_text())
    document["config"] |= {f"trainyard:{key}": value for key, value in settings.items()}
    cluster.config_file.write_text(yaml.safe_dump(document, sort_keys=False))


def operate(cluster: LiveCluster, command: str, *arguments: str) -> dict[str, Any]:
    """Run a command of the program and return what it changed: operation by resource."""
    output = cluster.trainyard(command, *arguments, "--config-file", str(cluster.config_file), "-o", "json")
    return {change["resource"]: change["operation"] for change in json.loads(require(output))["changes"]}


def refused(cluster: LiveCluster, command: str, *arguments: str) -> str:
    result = cluster.trainyard(command, *arguments, "--config-file", str(cluster.config_file))
    assert result.returncode == 2, result.stdout + result.stderr
    assert "Traceback" not in result.stderr
    return result.stderr


def quota(cluster: LiveCluster) -> dict[str, Any]:
    body: dict[str, Any] = cluster.get(*QUOTA)["items"][0]
    return body


def names(cluster: LiveCluster, *kinds: str) -> set[str]:
    return {f"{kind}/{item['metadata']['name']}" for kind in kinds for item in cluster.get(kind)["items"]}


def test_objects_of_others_are_listed_and_refused_before_anything_is_made(owned: LiveCluster) -> None:
    before = names(owned, "namespaces", "clusterroles", "customresourcedefinitions")
    for command in (("preview",), ("up", "--yes")):
        said = refused(owned, *command)
        assert f"PriorityClass {CLASS}" in said
        assert f"Namespace {NAMESPACE}" in said
        assert "trainyard:adopt" in said
    assert names(owned, "namespaces", "clusterroles", "customresourcedefinitions") == before


def test_adopted_objects_become_what_the_settings_say(owned: LiveCluster) -> None:
    configure(owned, adopt=True)
    operate(owned, "up", "--yes")
    for kind, name in (("priorityclass", CLASS), ("namespace", NAMESPACE)):
        metadata = owned.get(kind, name)["metadata"]
        assert metadata["annotations"]["trainyard.dev/adopted"] == "true"
        assert metadata["labels"]["trainyard.dev/stack"] == "local"
    assert owned.get("namespace", NAMESPACE)["metadata"]["labels"]["owner"] == "other"
    assert operate(owned, "up", "--yes") == {}


def test_refresh_sees_what_others_changed_and_up_puts_it_back(owned: LiveCluster) -> None:
    declared = quota(owned)["spec"]["hard"]
    name, resource = quota(owned)["metadata"]["name"], next(iter(sorted(declared)))
    patch = json.dumps({"spec": {"hard": {resource: "1"}}})
    require(owned.kubectl("patch", *QUOTA, name, "--type=merge", "-p", patch))
    require(owned.kubectl("delete", "role", "author", "-n", "vision"))

    seen = operate(owned, "refresh")
    assert (seen[f"ResourceQuota/vision/{name}"], seen["Role/vision/author"]) == ("update", "delete")
    done = operate(owned, "up", "--yes")
    assert done == {f"ResourceQuota/vision/{name}": "update", "Role/vision/author": "create"}
    assert quota(owned)["spec"]["hard"] == declared
    assert owned.get("role", "author", "-n", "vision") is not None
    assert operate(owned, "up", "--yes") == {}


def test_a_protected_stack_is_not_destroyed_and_says_what_holds_it(owned: LiveCluster) -> None:
    configure(owned, protect=True)
    operate(owned, "up", "--yes")
    before = names(owned, "namespaces", "queues", "customresourcedefinitions", "deployments", "clusterroles")
    said = refused(owned, "destroy", "--yes")
    for held in ("Queue/vision", "Namespace/vision", "CustomResourceDefinition/queues.scheduling.volcano.sh"):
        assert held in said
    assert "trainyard:protect" in said
    assert names(owned, "namespaces", "queues", "customresourcedefinitions", "deployments", "clusterroles") == before


def test_destroy_keeps_what_was_adopted(owned: LiveCluster) -> None:
    configure(owned, protect=False)
    operate(owned, "up", "--yes")
    operate(owned, "destroy", "--yes")
    left = names(owned, "namespaces", "priorityclasses", "customresourcedefinitions")
    assert {f"namespaces/{NAMESPACE}", f"priorityclasses/{CLASS}"} <= left
    assert not left & {"namespaces/vision", "namespaces/volcano-system", "priorityclasses/training-urgent"}
    assert not [name for name in left if name.endswith((".volcano.sh", ".kubeflow.org"))]
