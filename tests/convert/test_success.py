"""The pods whose success ends a job, as the training operator decides it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.convert import conversions
from tests.convert.conversions import own_runtime
from trainyard.api import Body
from trainyard.jobs.convert.conversion import Conversion

FIELDS = {
    "PyTorchJob": ("pytorchReplicaSpecs", "pytorch"),
    "XGBoostJob": ("xgbReplicaSpecs", "xgboost"),
    "TFJob": ("tfReplicaSpecs", "tensorflow"),
    "PaddleJob": ("paddleReplicaSpecs", "paddle"),
}


def conversion_of(kind: str, roles: dict[str, int], **spec: Any) -> Conversion:
    field, container = FIELDS[kind]

    def role(name: str, replicas: int) -> Body:
        main = {"name": container, "image": "registry.example/a:1", "args": ["--role", name]}
        return {"replicas": replicas, "template": {"spec": {"containers": [main]}}}

    metadata = {"name": "old", "namespace": "vision"}
    spec = {**spec, field: {name: role(name, replicas) for name, replicas in roles.items()}}
    body = {"apiVersion": "kubeflow.org/v1", "kind": kind, "metadata": metadata, "spec": spec}
    return conversions.conversion_of(body)


@pytest.mark.parametrize(
    ("kind", "roles", "spec", "deciding"),
    [
        ("PyTorchJob", {"Master": 1, "Worker": 2}, {}, "master"),
        ("XGBoostJob", {"Master": 1, "Worker": 2}, {}, "master"),
        ("TFJob", {"Chief": 1, "Worker": 2}, {}, "chief"),
        ("TFJob", {"Master": 1, "Worker": 2}, {}, "master"),
        ("TFJob", {"Chief": 1, "Worker": 2, "PS": 1}, {"successPolicy": "AllWorkers"}, "chief"),
        ("TFJob", {"Worker": 2, "PS": 1}, {}, "worker"),
        ("TFJob", {"Worker": 2, "Evaluator": 1}, {"successPolicy": "AllWorkers"}, "worker"),
    ],
)
@pytest.mark.parametrize("cleaned", [None, "None", "Running", "All"])
def test_one_role_decides(kind: str, roles: dict[str, int], spec: Body, deciding: str, cleaned: str | None) -> None:
    policy = {"runPolicy": {"cleanPodPolicy": cleaned}} if cleaned else {}
    conversion = conversion_of(kind, roles, **spec, **policy)
    assert own_runtime(conversion)["successPolicy"] == {"operator": "All", "targetReplicatedJobs": [deciding]}
    (note,) = [note for note in conversion.notes if "successPolicy of the JobSet: when" in note.message]
    assert note.path.lower().endswith(deciding)
    assert note.fidelity == ("lossless" if cleaned in ("Running", "All") else "changed")


@pytest.mark.parametrize(("policy", "index"), [({}, True), ({"successPolicy": "AllWorkers"}, False)])
def test_the_first_worker_of_a_tfjob_decides(policy: Body, index: bool) -> None:
    (workers,) = own_runtime(conversion_of("TFJob", {"Worker": 3}, **policy))["replicatedJobs"]
    decides = workers["template"]["spec"].get("successPolicy") == {"rules": [{"succeededIndexes": "0"}]}
    assert decides == index


def test_servers_of_a_paddlejob_end_with_the_workers() -> None:
    conversion = conversion_of("PaddleJob", {"Master": 1, "Worker": 2})
    assert any("the job ends with its workers" in note.message for note in conversion.notes)
