"""The recorded fields of Kubernetes' kinds are those that the pinned API server serves."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest

from tests.support import LiveCluster, require
from tools.reference.kubernetes_fields import FILE, recorded_from
from trainyard.settings.versions import KUBERNETES_VERSION
from trainyard.upstream import module_cache

SPECIFICATION: Final[dict[str, Any]] = {
    "definitions": {
        "io.k8s.api.batch.v1.CronJob": {"properties": {"spec": {"$ref": "#/definitions/io.k8s.api.core.v1.PodSpec"}}},
        "io.k8s.api.batch.v1.Job": {},
        "io.k8s.api.core.v1.PersistentVolumeClaim": {},
        "io.k8s.api.core.v1.Pod": {"properties": {"spec": {"$ref": "#/definitions/io.k8s.api.core.v1.PodSpec"}}},
        "io.k8s.api.core.v1.Service": {},
        "io.k8s.api.policy.v1.PodDisruptionBudget": {},
        "io.k8s.api.resource.v1.ResourceClaim": {},
        "io.k8s.api.resource.v1.ResourceClaimTemplate": {},
        "io.k8s.api.core.v1.PodSpec": {
            "properties": {
                "containers": {"items": {"$ref": "#/definitions/io.k8s.api.core.v1.Container"}},
                "nodeSelector": {"additionalProperties": {"type": "string"}},
                "overhead": {"additionalProperties": {"$ref": "#/definitions/io.k8s.api.Quantity"}},
            }
        },
        "io.k8s.api.core.v1.Container": {"properties": {"name": {"type": "string"}}},
        "io.k8s.api.Quantity": {"type": "string"},
    },
}


def test_fields_are_recorded_by_type() -> None:
    recorded = recorded_from(SPECIFICATION)
    assert recorded["version"] == f"v{KUBERNETES_VERSION}"
    assert recorded["types"]["PodSpec"] == {"containers": "Container[]", "nodeSelector": "{}", "overhead": "{}"}
    assert recorded["types"]["Container"] == {"name": ""}


def test_two_types_of_one_name_are_an_error() -> None:
    definitions = {
        **SPECIFICATION["definitions"],
        "io.k8s.api.other.v1.PodSpec": {},
        "io.k8s.api.core.v1.Service": {"properties": {"x": {"$ref": "#/definitions/io.k8s.api.other.v1.PodSpec"}}},
    }
    definitions["io.k8s.api.other.v1.PodSpec"] = {"properties": {"y": {"type": "string"}}}
    with pytest.raises(ValueError, match="two types are named PodSpec"):
        recorded_from({**SPECIFICATION, "definitions": definitions})


def test_the_recorded_fields_are_those_of_the_pinned_source() -> None:
    file = module_cache() / f"k8s.io/kubernetes@v{KUBERNETES_VERSION}" / "api" / "openapi-spec" / "swagger.json"
    if not file.is_file():
        pytest.skip("Kubernetes' source is not in the module cache")
    assert json.loads(FILE.read_text())["types"] == recorded_from(json.loads(file.read_text()))["types"]


@pytest.mark.cluster
def test_the_recorded_fields_are_those_of_the_running_api_server(cluster: LiveCluster) -> None:
    served = recorded_from(json.loads(require(cluster.kubectl("get", "--raw", "/openapi/v2"))))
    assert json.loads(FILE.read_text()) == served
