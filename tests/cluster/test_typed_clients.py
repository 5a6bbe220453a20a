"""A client with the Go types of Kueue 0.16.2 updates a TrainJob: what it did not mean to change stays."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cluster.jobs import node_patch, train_job
from tests.compatibility import typed_clients
from tests.support import LiveCluster, awaited, require

pytestmark = pytest.mark.cluster

NAMESPACE = "vision"
RUNTIME = "torch-distributed"


@pytest.fixture
def stored(platform: LiveCluster) -> Any:
    """A suspended TrainJob whose quantities are numbers, with a patch and a deadline."""
    body = train_job("typed", NAMESPACE, RUNTIME, suspend=True, activeDeadlineSeconds=3600)
    amounts = {"nvidia.com/gpu": 8, "cpu": "1.5", "memory": "1024Mi"}
    body["spec"]["trainer"]["resourcesPerNode"] = {"requests": amounts, "limits": amounts}
    body["spec"]["runtimePatches"] = [node_patch(metadata={"labels": {"a": "b"}})]
    require(platform.apply(body))
    try:
        yield read(platform)
    finally:
        require(platform.kubectl("delete", "trainjob", "typed", "-n", NAMESPACE))


def read(platform: LiveCluster) -> dict[str, Any]:
    body: dict[str, Any] = platform.get("trainjob", "typed", "-n", NAMESPACE)
    return body


def put(platform: LiveCluster, body: dict[str, Any]) -> None:
    """Send an update without a field manager, as controllers do; again after a conflict with a write of the status."""
    kind, metadata = body["kind"].lower(), body["metadata"]
    place = ("-n", metadata["namespace"]) if "namespace" in metadata else ()
    folder = f"/namespaces/{metadata['namespace']}" if place else ""
    path = f"/apis/trainer.kubeflow.org/v1alpha1{folder}/{kind}s/{metadata['name']}"

    def sent() -> bool:
        latest = platform.get(kind, metadata["name"], *place)["metadata"]["resourceVersion"]
        update = {**body, "metadata": {**metadata, "resourceVersion": latest}}
        result = platform.kubectl("replace", "--raw", path, "-f", "-", stdin=json.dumps(update))
        if "the object has been modified" not in result.stderr:
            require(result)
        return result.returncode == 0

    awaited(f"the update of {metadata['name']}", sent)


def test_an_update_by_kueues_client_changes_what_it_means_to_change(platform: LiveCluster, stored: Any) -> None:
    amounts = {"nvidia.com/gpu": "8", "cpu": "1500m", "memory": "1Gi"}
    assert stored["spec"]["trainer"]["resourcesPerNode"] == {"requests": amounts, "limits": amounts}
    back = typed_clients.updates("2.1", [stored])[0]
    assert not {"runtimePatches", "activeDeadlineSeconds"} & set(back["spec"])
    entry = {
        "targetJobs": [{"name": "node"}],
        "metadata": {"labels": {"kueue.x-k8s.io/podset": "node"}},
        "spec": {"nodeSelector": {"kubernetes.io/os": "linux"}},
    }
    back["spec"]["podTemplateOverrides"] = [entry]
    put(platform, back)
    updated = read(platform)
    assert updated["spec"] == {**stored["spec"], "podTemplateOverrides": [entry]}
    again = typed_clients.updates("2.3", [updated])[0]
    put(platform, {**again, "spec": {**again["spec"], "podTemplateOverrides": [entry]}})
    assert read(platform)["metadata"]["generation"] == updated["metadata"]["generation"]


def test_an_update_of_a_released_runtime_changes_nothing(platform: LiveCluster) -> None:
    before = platform.get("clustertrainingruntime", RUNTIME)
    put(platform, typed_clients.updates("2.3", [before])[0])
    after = platform.get("clustertrainingruntime", RUNTIME)
    assert (after["spec"], after["metadata"]["generation"]) == (before["spec"], before["metadata"]["generation"])


def test_a_user_removes_a_patch_of_a_suspended_job(platform: LiveCluster, stored: Any) -> None:
    removal = json.dumps({"spec": {"runtimePatches": None}})
    require(platform.kubectl("patch", "trainjob", "typed", "-n", NAMESPACE, "--type=merge", "-p", removal))
    assert "runtimePatches" not in read(platform)["spec"]
