"""CRDs: deterministic, structural, one source with the models."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.api.jobset_crd import jobset_crd
from tests.api.schemas import nodes, schema_of
from tools.reference.api import fields
from trainyard.api import Platform, TenantPolicy, TrainingRuntime, TrainJob
from trainyard.api.crds import build
from trainyard.api.runtime import shape_rules


def by_kind(**options: bool) -> dict[str, dict[str, Any]]:
    return {definition["spec"]["names"]["kind"]: definition for definition in build(jobset_crd(), **options)}


def test_building_twice_gives_the_same_bytes() -> None:
    assert json.dumps(build(jobset_crd())) == json.dumps(build(jobset_crd()))


def test_the_input_is_not_changed() -> None:
    definition = jobset_crd()
    build(definition)
    assert definition == jobset_crd()


def test_the_five_kinds_have_upstreams_names_scopes_and_columns() -> None:
    kinds = by_kind()
    assert {kind: definition["spec"]["scope"] for kind, definition in kinds.items()} == {
        "ClusterTrainingRuntime": "Cluster",
        "TrainingRuntime": "Namespaced",
        "TrainJob": "Namespaced",
        "Platform": "Cluster",
        "TenantPolicy": "Namespaced",
    }
    train_job = kinds["TrainJob"]["spec"]
    assert train_job["names"] == {
        "kind": "TrainJob",
        "listKind": "TrainJobList",
        "plural": "trainjobs",
        "singular": "trainjob",
    }
    assert train_job["versions"][0]["subresources"] == {"status": {}}
    assert [column["name"] for column in train_job["versions"][0]["additionalPrinterColumns"]] == ["State", "Age"]
    runtime = kinds["TrainingRuntime"]["spec"]["versions"][0]
    assert "subresources" not in runtime
    assert "additionalPrinterColumns" not in runtime


def test_both_runtimes_have_one_schema() -> None:
    kinds = by_kind()
    assert schema_of(kinds["TrainingRuntime"])["properties"] == schema_of(kinds["ClusterTrainingRuntime"])["properties"]


@pytest.mark.parametrize("kind", ["TrainJob", "TrainingRuntime", "Platform", "TenantPolicy"])
def test_schemas_are_structural(kind: str) -> None:
    for path, node in nodes(schema_of(by_kind(descriptions=True)[kind])):
        assert node.get("type") or node.get("x-kubernetes-int-or-string"), path
        assert not {"$ref", "title", "$defs", "const", "ge", "le"} & node.keys(), path
        assert "anyOf" not in node or node["x-kubernetes-int-or-string"], path
        assert not any(key.startswith("x-trainyard") for key in node), path


def test_parts_of_pods_come_from_jobset() -> None:
    schema = dict(nodes(schema_of(by_kind()["TrainJob"])))
    pod = "spec.runtimePatches[].trainingRuntimeSpec.template.spec.replicatedJobs[].template.spec.template.spec"
    assert schema[f"{pod}.securityContext.fsGroup"] == {"type": "integer"}
    assert schema[f"{pod}.containers[].securityContext.runAsUser"] == {"type": "integer"}
    assert schema["spec.trainer.env"]["maxItems"] == 128
    assert schema[f"{pod}.containers[].volumeMounts"]["x-kubernetes-list-map-keys"] == ["name"]
    tolerations = {"maxItems": 128, "type": "array", "x-kubernetes-list-type": "atomic"}
    assert schema[f"{pod}.tolerations"].items() >= tolerations.items()
    runtime = dict(nodes(schema_of(by_kind()["TrainingRuntime"])))
    assert runtime["spec.template.spec"]["x-kubernetes-validations"][0]["message"] == "a rule of JobSet"
    assert runtime["spec.template.spec.replicatedJobs[].replicas"]["default"] == 1


def test_our_descriptions_are_kept_and_jobsets_only_when_asked_for() -> None:
    usual = dict(nodes(schema_of(by_kind()["TrainJob"])))
    described = dict(nodes(schema_of(by_kind(descriptions=True)["TrainJob"])))
    assert usual["spec.trainer.numNodes"]["description"] == "Number of training nodes."
    assert usual["spec.trainer.env"]["description"] == "Environment variables."
    assert "description" not in usual["spec.trainer.env[].name"]
    assert described["spec.trainer.env[].name"]["description"] == "a name"


@pytest.mark.parametrize("kind", ["TrainJob", "TrainingRuntime", "Platform", "TenantPolicy"])
def test_every_field_of_ours_is_described(kind: str) -> None:
    model = {"TrainJob": TrainJob, "TrainingRuntime": TrainingRuntime, "Platform": Platform}.get(kind, TenantPolicy)
    parts = ("[]", "{}", ".metadata.annotations", ".metadata.finalizers", ".metadata.labels", ".metadata.name")
    plain = [field.path for field in fields(model) if not field.schema.get("description")]
    assert [path for path in plain if not path.endswith((*parts, ".metadata.namespace"))] == []


def test_messages_of_our_rules_begin_with_their_id() -> None:
    messages = [
        rule["message"]
        for definition in by_kind().values()
        for _, node in nodes(schema_of(definition))
        for rule in node.get("x-kubernetes-validations", ())
    ]
    for identifier, rule in shape_rules().items():
        assert f"{identifier}: {rule.text}" in messages


@pytest.mark.parametrize("kind", ["Platform", "TenantPolicy"])
def test_lists_and_texts_of_our_objects_are_bounded(kind: str) -> None:
    for path, node in nodes(schema_of(by_kind()[kind])["properties"]["spec"], "spec"):
        if node["type"] == "array":
            assert "maxItems" in node, path
        elif node["type"] == "string":
            assert "maxLength" in node, path
