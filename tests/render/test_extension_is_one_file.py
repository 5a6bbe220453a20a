"""An extension is one file: a framework and a gang scheduler that are one new file each are known everywhere."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.extended_tree import ROOT, extended, run

pytestmark = pytest.mark.slow

EXTENSION = Path(__file__).with_name("extension")
JOB_SET_SPEC = {
    "replicatedJobs": [
        {
            "name": "node",
            "template": {
                "metadata": {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}},
                "spec": {"template": {"spec": {"containers": [{"name": "node", "image": "example.com/train:1"}]}}},
            },
        }
    ]
}


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the library with the new files; the rest of the project is linked."""
    added = {
        "trainyard/jobs/render/gangs/dense.py": EXTENSION / "dense.py",
        "trainyard/jobs/render/frameworks/herd.py": EXTENSION / "herd.py",
        "trainyard/controller/keys/brand.py": EXTENSION / "brand.py",
        "trainyard/jobs/convert/kinds/flock.py": EXTENSION / "flock.py",
    }
    return extended(tmp_path_factory.mktemp("extended"), added)


@pytest.fixture(scope="module")
def known(tree: Path) -> dict[str, Any]:
    """Return what the extended library says, asked in a process of its own."""
    answer = run(tree, str(EXTENSION / "questions.py"))
    found: dict[str, Any] = json.loads(answer.stdout)
    return found


def runtime(**policies: Any) -> dict[str, Any]:
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "ClusterTrainingRuntime",
        "metadata": {"name": "extended"},
        "spec": {**policies, "template": {"spec": JOB_SET_SPEC}},
    }


def rendered(tree: Path, **policies: Any) -> dict[str, Any]:
    job = {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": "job", "namespace": "team"},
        "spec": {"runtimeRef": {"name": "extended"}, "trainer": {"numNodes": 2}},
    }
    file = tree / "job.yaml"
    file.write_text(yaml.safe_dump_all([runtime(**policies), job]))
    (result,) = json.loads(run(tree, "-m", "trainyard", "render", "-o", "json", str(file)).stdout)["results"]
    return dict(result)


def test_render_places_the_gang(tree: Path) -> None:
    result = rendered(tree, podGroupPolicy={"dense": {"spread": 3}})
    assert result["errors"] == []
    group = next(body for body in result["objects"] if body["kind"] == "Group")
    assert group["spec"] == {"minMember": 2, "spread": 3}
    job_set = next(body for body in result["objects"] if body["kind"] == "JobSet")
    pod = job_set["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]
    assert pod["metadata"]["labels"] == {"dense.example.com/group": "job"}
    assert pod["spec"]["schedulerName"] == "dense-scheduler"


def test_the_schema_has_the_gang_policy_and_its_bounds(known: dict[str, Any]) -> None:
    for kind in ("ClusterTrainingRuntime", "TrainingRuntime"):
        assert known["schemas"][kind]["podGroupPolicy"]["properties"]["dense"]["properties"]["spread"] == {
            "default": 1,
            "description": "Nodes a gang may span.",
            "minimum": 1,
            "type": "integer",
        }


def test_the_model_rejects_what_the_schema_rejects(tree: Path) -> None:
    (error,) = rendered(tree, podGroupPolicy={"dense": {"spread": 0}})["errors"]
    assert "spec.podGroupPolicy.dense.spread: Input should be greater than or equal to 1" in error["message"]


def test_two_gang_schedulers_exclude_each_other(tree: Path, known: dict[str, Any]) -> None:
    (rule,) = known["schemas"]["TrainingRuntime"]["podGroupPolicy"]["x-kubernetes-validations"]
    assert "has(self.dense)" in rule["rule"]
    errors = rendered(tree, podGroupPolicy={"dense": {}, "kai": {}})["errors"]
    assert {error["rule"] for error in errors} == {"PGP-001"}
    assert "dense" in known["sources"]["podGroupPolicy"]


def test_the_controller_may_write_and_watches_the_gang_object(known: dict[str, Any]) -> None:
    (rule,) = (rule for rule in known["permissions"] if rule["apiGroups"] == ["dense.example.com"])
    assert rule["resources"] == ["groups"]
    assert set(rule["verbs"]) == {"get", "list", "watch", "create", "patch", "delete"}
    assert ["dense.example.com/v1", "Group"] in known["children"]
    assert known["member"] is True


def test_tenants_may_not_write_the_gang_object(known: dict[str, Any]) -> None:
    assert "dense.example.com/groups" in known["protected"]


def test_the_scheduler_rule_knows_the_names(known: dict[str, Any]) -> None:
    assert known["scheduler-rule"]["parameters"]["dense"] == ["dense-scheduler"]
    assert any("variables.dense" in text for text in known["scheduler-rule"]["cel"])
    assert "Names under which the dense scheduler runs" in known["rules-page"]


def test_the_api_reference_lists_the_gang_policy(known: dict[str, Any]) -> None:
    assert "| `spec.podGroupPolicy.dense` | object | – | – | – | – |  | Dense. |" in known["api-page"]
    assert "| runtimes | `spec.podGroupPolicy.dense` | added | a scheduler of the test |" in known["api-page"]


def test_a_new_runtime_may_use_the_gang_scheduler(tree: Path) -> None:
    folder = tree / "own"
    arguments = ("--framework", "torch", "--gang", "dense", "--owner", "team", "--summary", "Dense training")
    run(tree, "-m", "trainyard", "runtimes", "new", "dense-torch", *arguments, "--folder", str(folder))
    (version,) = folder.glob("dense-torch/*.yaml")
    assert yaml.safe_load(version.read_text())["spec"]["podGroupPolicy"] == {"dense": {}}


def test_a_legacy_job_of_the_scheduler_becomes_a_runtime_with_it(tree: Path) -> None:
    legacy = yaml.safe_load((ROOT / "tests/convert/inputs/pytorch-kai.yaml").read_text())
    for role in legacy["spec"]["pytorchReplicaSpecs"].values():
        role["template"]["spec"]["schedulerName"] = "dense-scheduler"
    file = tree / "legacy.yaml"
    file.write_text(yaml.safe_dump(legacy))
    converted = yaml.safe_load_all(run(tree, "-m", "trainyard", "convert", "--runtime", "always", str(file)).stdout)
    (policy,) = (body["spec"]["podGroupPolicy"] for body in converted if body["kind"] == "TrainingRuntime")
    assert policy == {"dense": {}}


def test_render_tells_the_nodes_of_the_framework(tree: Path) -> None:
    result = rendered(tree, mlPolicy={"herd": {"numProcPerNode": 4}}, podGroupPolicy={"dense": {}})
    assert result["errors"] == []
    job_set = next(body for body in result["objects"] if body["kind"] == "JobSet")
    (container,) = job_set["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["containers"]
    assert container["env"] == [{"name": "HERD_SIZE", "value": "8"}]


def test_the_schema_has_the_framework_and_its_bounds(tree: Path, known: dict[str, Any]) -> None:
    for kind in ("ClusterTrainingRuntime", "TrainingRuntime"):
        field = known["schemas"][kind]["mlPolicy"]["properties"]["herd"]["properties"]["numProcPerNode"]
        assert (field["minimum"], field["default"]) == (1, 1)
    (error,) = rendered(tree, mlPolicy={"herd": {"numProcPerNode": 0}})["errors"]
    assert "spec.mlPolicy.herd.numProcPerNode: Input should be greater than or equal to 1" in error["message"]


def test_two_frameworks_exclude_each_other(tree: Path, known: dict[str, Any]) -> None:
    rule = known["schemas"]["TrainingRuntime"]["mlPolicy"]["x-kubernetes-validations"][0]
    assert "has(self.herd)" in rule["rule"]
    assert {error["rule"] for error in rendered(tree, mlPolicy={"herd": {}, "jax": {}})["errors"]} == {"MLP-001"}
    assert "herd" in known["sources"]["mlPolicy"]


def test_the_rules_know_the_framework(known: dict[str, Any]) -> None:
    assert "herd=HERD_*" in known["reserved"]["ENV-001"]
    assert "herd=HERD_*" in known["reserved"]["ENV-002"]
    assert "herd" in known["reserved"]["LBL-002"]
    assert "herd=HERD_*" in known["rules-page"]


def test_tenants_may_not_write_the_secret_of_the_framework(known: dict[str, Any]) -> None:
    names = known["trusted-names"]
    assert "-herd-brand" in names["texts"]
    assert "-herd-brand" in names["rego"]["Secret"]
    (expression,) = names["cel"]
    assert '"secrets": ["-mpi-ssh-auth", "-flux-curve", "-herd-brand"]' in expression


def test_the_controller_generates_keys_of_a_new_kind(known: dict[str, Any]) -> None:
    assert known["keys"] == ["brand"]


def test_lint_knows_that_each_process_takes_a_device(known: dict[str, Any]) -> None:
    assert known["lint"] == ["spec.mlPolicy.herd.numProcPerNode"]


def test_the_api_reference_lists_the_framework(known: dict[str, Any]) -> None:
    assert "| `spec.mlPolicy.herd` | object | – | – | – | – |  | Herd. |" in known["api-page"]
    assert "| runtimes | `spec.mlPolicy.herd` | added | a framework of the test |" in known["api-page"]


def test_legacy_jobs_of_a_new_kind_become_jobs_of_the_framework(tree: Path) -> None:
    pod = {"spec": {"containers": [{"name": "sheep", "image": "example.com/train:1"}]}}
    flock = {"apiVersion": "legacy.example.com/v1", "kind": "Flock", "metadata": {"name": "flock", "namespace": "team"}}
    file = tree / "flock.yaml"
    file.write_text(yaml.safe_dump({**flock, "spec": {"sheep": 3, "template": pod}}))
    converted = run(tree, "-m", "trainyard", "convert", str(file), "--strict", "--runtime", "always").stdout
    own, job = yaml.safe_load_all(converted)
    assert own["metadata"]["labels"] == {"trainer.kubeflow.org/framework": "herd"}
    assert own["spec"]["mlPolicy"] == {"numNodes": 3, "herd": {}}
    assert job["spec"]["runtimeRef"]["name"] == "flock"


def test_legacy_jobs_get_the_catalog_runtime_of_the_framework(known: dict[str, Any]) -> None:
    (job,) = known["converted"]
    assert job["spec"]["runtimeRef"]["name"] == "herd"
    assert job["spec"]["trainer"]["numNodes"] == 3
