"""What tests read without kubectl is what it prints."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.kubectl_get import UnreadError, read
from tests.support import LiveCluster, require, shared_session

pytestmark = pytest.mark.cluster

FORMS = (
    ("crd",),
    ("ns", "vision"),
    ("namespace", "no-such"),
    ("queue", "vision", "-n", "vision"),
    ("queues.scheduling.volcano.sh,platforms",),
    ("jobs", "-A"),
    ("jobs.batch.volcano.sh", "-n", "vision"),
    ("events", "-A", "-l", "none=such"),
    ("deploy,svc", "-A", "-l", "trainyard.dev/stack=local", "--show-managed-fields"),
    ("configmap", "volcano-scheduler-configmap", "-n", "volcano-system"),
    ("clustertrainingruntime", "torch-distributed"),
    ("resourcequota", "-n", "vision"),
    ("serviceaccounts",),
)


@pytest.mark.parametrize("arguments", FORMS, ids=" ".join)
def test_it_is_what_kubectl_prints(platform: LiveCluster, arguments: tuple[str, ...]) -> None:
    printed = platform.kubectl("get", *arguments, "-o", "json")
    found = read(shared_session(platform.kubeconfig), *arguments)
    if "NotFound" in printed.stderr:
        assert found is None
    else:
        assert shape(found) == shape(json.loads(require(printed)))


def shape(body: Any) -> Any:
    """Return what programs at work do not change: everything but status and the fields that say who wrote when."""
    if "items" in body:
        return {**body, "metadata": {}, "items": [shape(each) for each in body["items"]]}
    metadata = {key: value for key, value in body["metadata"].items() if key != "resourceVersion"}
    metadata["managedFields"] = "managedFields" in metadata
    return {**body, "metadata": metadata, "status": "status" in body}


@pytest.mark.parametrize(
    "arguments", [("nothing",), ("pods/a",), ("pods", "a", "b"), ("pods", "--watch")], ids=" ".join
)
def test_everything_else_is_left_to_kubectl(platform: LiveCluster, arguments: tuple[str, ...]) -> None:
    with pytest.raises(UnreadError):
        read(shared_session(platform.kubeconfig), *arguments)
