"""CRDs: deterministic, structural, one source with the models."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.api.jobset_crd import jobset_crd
from trainyard.api import documents
from trainyard.api.crds import build
from trainyard.api.rules import SHAPE_RULES
from trainyard.settings.versions import supported_versions
from trainyard.upstream import read

UPSTREAM = "github.com/kubeflow/trainer/v2@v2.3.0"
DELIBERATE = {
    "spec.mlPolicy": {"x-kubernetes-validations"},
    "spec.mlPolicy.mpi.numProcPerNode": {"minimum"},
    "spec.mlPolicy.numNodes": {"minimum"},
    "spec.podGroupPolicy": {"x-kubernetes-validations"},
    "spec.podGroupPolicy.volcano.networkTopology.highestTierAllowed": {"minimum"},
    "spec.trainer.numNodes": {"minimum"},
    "spec.trainer.numProcPerNode": {"minimum"},
}
"""Schema keys that differ from upstream v2.3.0 on purpose; docs/compatibility.md gives the reasons."""


def schema_of(definition: Mapping[str, Any]) -> Any:
    return definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]


def nodes(schema: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every schema node with its field path."""
    yield path, {k: v for k, v in schema.items() if k not in ("properties", "items", "additionalProperties")}
    for name, inner in schema.get("properties", {}).items():
        yield from nodes(inner, f"{path}.{name}" if path else name)
    for key, mark in (("items", "[]"), ("additionalProperties", "{}")):
        if isinstance(schema.get(key), dict):
            yield from nodes(schema[key], path + mark)


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
    assert schema_of(kinds["TrainingRuntime"]) == schema_of(kinds["ClusterTrainingRuntime"])


@pytest.mark.parametrize("kind", ["TrainJob", "TrainingRuntime", "Platform", "TenantPolicy"])
def test_schemas_are_structural(kind: str) -> None:
    for path, node in nodes(schema_of(by_kind(descriptions=True)[kind])):
        assert node.get("type") or node.get("x-kubernetes-int-or-string"), path
        assert not {"$ref", "anyOf", "title", "$defs", "const", "ge", "le"} & node.keys(), path
        assert not any(key.startswith("x-trainyard") for key in node), path


def test_parts_of_pods_come_from_jobset() -> None:
    schema = dict(nodes(schema_of(by_kind()["TrainJob"])))
    pod = "spec.runtimePatches[].trainingRuntimeSpec.template.spec.replicatedJobs[].template.spec.template.spec"
    assert schema[f"{pod}.securityContext.fsGroup"] == {"type": "integer"}
    assert schema[f"{pod}.containers[].securityContext.runAsUser"] == {"type": "integer"}
    assert schema["spec.trainer.env"]["maxItems"] == 128
    assert schema[f"{pod}.containers[].volumeMounts"]["x-kubernetes-list-map-keys"] == ["name"]
    assert schema[f"{pod}.tolerations"] == {"maxItems": 128, "type": "array", "x-kubernetes-list-type": "atomic"}
    runtime = dict(nodes(schema_of(by_kind()["TrainingRuntime"])))
    assert runtime["spec.template.spec"]["x-kubernetes-validations"][0]["message"] == "a rule of JobSet"
    assert runtime["spec.template.spec.replicatedJobs[].replicas"]["default"] == 1


def test_descriptions_are_kept_only_when_asked_for() -> None:
    assert not any("description" in node for _, node in nodes(schema_of(by_kind()["TrainJob"])))
    described = dict(nodes(schema_of(by_kind(descriptions=True)["TrainJob"])))
    assert described["spec.trainer.numNodes"]["description"] == "Number of training nodes."


def test_messages_of_our_rules_begin_with_their_id() -> None:
    messages = [
        rule["message"]
        for definition in by_kind().values()
        for _, node in nodes(schema_of(definition))
        for rule in node.get("x-kubernetes-validations", ())
    ]
    for identifier, rule in SHAPE_RULES.items():
        assert f"{identifier}: {rule.text}" in messages


@pytest.mark.parametrize("kind", ["Platform", "TenantPolicy"])
def test_lists_and_texts_of_our_objects_are_bounded(kind: str) -> None:
    for path, node in nodes(schema_of(by_kind()[kind])["properties"]["spec"], "spec"):
        if node["type"] == "array":
            assert "maxItems" in node, path
        elif node["type"] == "string":
            assert "maxLength" in node, path


@pytest.mark.slow
@pytest.mark.parametrize("plural", ["trainjobs", "trainingruntimes", "clustertrainingruntimes"])
def test_schemas_equal_upstreams_except_where_we_say_so(plural: str, tmp_path: Path) -> None:
    upstream = dict(nodes(schema_of(upstream_crd(plural, tmp_path))))
    path = "config/components/crd/bases/jobset.x-k8s.io_jobsets.yaml"
    jobset = next(iter(documents(read("jobset", supported_versions("jobset")[0], path))))
    definitions = {definition["spec"]["names"]["plural"]: definition for definition in build(jobset)}
    ours = dict(nodes(schema_of(definitions[plural])))
    assert ours.keys() == upstream.keys()
    different = {path: keys for path in ours if (keys := differing(ours[path], upstream[path]))}
    assert different == {path: keys for path, keys in DELIBERATE.items() if path in ours}


def differing(ours: Mapping[str, Any], upstream: Mapping[str, Any]) -> set[str]:
    def plain(node: Mapping[str, Any]) -> dict[str, Any]:
        kept = {key: value for key, value in node.items() if key != "description"}
        return {**kept, "required": sorted(kept["required"])} if "required" in kept else kept

    left, right = plain(ours), plain(upstream)
    return {key for key in left.keys() | right.keys() if left.get(key) != right.get(key)}


def upstream_crd(plural: str, folder: Path) -> dict[str, Any]:
    (folder / "go.mod").write_text("module compare\n")
    command = ["go", "mod", "download", "-json", UPSTREAM]
    try:
        result = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    except FileNotFoundError:
        pytest.skip("go is not installed")
    if result.returncode != 0:
        pytest.skip(f"{UPSTREAM} cannot be downloaded")
    file = Path(json.loads(result.stdout)["Dir"]) / "manifests/base/crds" / f"trainer.kubeflow.org_{plural}.yaml"
    definition: dict[str, Any] = yaml.load(file.read_text(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    return definition
