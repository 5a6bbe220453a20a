"""The commands `trainyard render` and `trainyard crds`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
import yaml
from typer.testing import CliRunner

from tests.api.jobset_crd import jobset_crd
from trainyard.api.constants import QUEUE_ANNOTATION as QUEUE
from trainyard.cli import crds, render
from trainyard.errors import TrainyardError

GOLDEN = Path(__file__).parent.parent / "render" / "golden"


def app() -> typer.Typer:
    built = typer.Typer()
    render.register(built)
    crds.register(built)
    return built


def invoke(*arguments: str | Path, stdin: str | None = None) -> str:
    result = CliRunner().invoke(app(), [str(part) for part in arguments], input=stdin, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_json_follows_the_contract_for_several_files() -> None:
    files = [GOLDEN / "torch-gang.yaml", GOLDEN / "plain-and-rejected.yaml"]
    results = json.loads(invoke("render", "-o", "json", *files))["results"]
    assert [result["trainJob"] for result in results] == [
        "default/a-plain",
        "default/b-two-frameworks",
        "default/c-no-runtime",
        "default/d-no-nodes",
        "default/e-elsewhere",
        "research/llm",
    ]
    assert all(result.keys() == {"trainJob", "errors", "warnings", "objects"} for result in results)
    assert results[1]["errors"][0].keys() == {"path", "message", "fix", "rule"}


def test_yaml_can_be_applied_and_shows_findings_as_comments() -> None:
    output = invoke("render", GOLDEN / "plain-and-rejected.yaml")
    kinds = [body["kind"] for body in yaml.safe_load_all(output) if body]
    assert kinds == ["ConfigMap", "JobSet"]
    assert "# TrainJob default/c-no-runtime\n# error: spec.runtimeRef:" in output
    assert "# warning: spec.runtimeRef: Referenced ClusterTrainingRuntime" in output


def test_standard_input_is_read() -> None:
    output = invoke("render", "-o", "json", "-", stdin=(GOLDEN / "torch-gang.yaml").read_text())
    assert json.loads(output)["results"][0]["trainJob"] == "research/llm"


JOB = """
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: llm, namespace: vision}
spec: {runtimeRef: {name: %s}}
"""


@pytest.mark.parametrize("name", ["torch-distributed", "ray"])
def test_runtimes_of_the_catalog_are_found(name: str) -> None:
    (result,) = json.loads(invoke("render", "-o", "json", "-", stdin=JOB % name))["results"]
    (job_set,) = [body for body in result["objects"] if body["kind"] == "JobSet"]
    assert result["errors"] == []
    assert QUEUE not in job_set["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["metadata"].get(
        "annotations", {}
    )


def test_a_named_stack_gives_runtimes_and_context() -> None:
    (result,) = json.loads(
        invoke("render", "-o", "json", "--stack", "local", "-", stdin=JOB % "torch-distributed-gang")
    )["results"]
    (gang,) = [body for body in result["objects"] if body["kind"] == "PodGroup"]
    assert gang["spec"]["queue"] == "vision"
    (result,) = json.loads(invoke("render", "-o", "json", "--stack", "local", "-", stdin=JOB % "ray"))["results"]
    assert [error["path"] for error in result["errors"]] == ["spec.runtimeRef"]


def test_a_runtime_of_the_files_takes_precedence() -> None:
    runtime = """---
apiVersion: trainer.kubeflow.org/v1alpha1
kind: ClusterTrainingRuntime
metadata: {name: torch-distributed, labels: {trainer.kubeflow.org/framework: plain}}
spec: {mlPolicy: {numNodes: 7}, template: {spec: {replicatedJobs: [{name: node, template: {
  metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}},
  spec: {template: {spec: {containers: [{name: node, image: example.com/a:1}]}}}}}]}}}
"""
    (result,) = json.loads(invoke("render", "-o", "json", "-", stdin=JOB % "torch-distributed" + runtime))["results"]
    (job_set,) = [body for body in result["objects"] if body["kind"] == "JobSet"]
    assert job_set["spec"]["replicatedJobs"][0]["template"]["spec"]["parallelism"] == 7


def test_no_train_jobs_is_an_empty_answer() -> None:
    assert json.loads(invoke("render", "-o", "json", "-", stdin="")) == {"results": []}


def test_a_file_that_is_not_there_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(TrainyardError, match="cannot be read"):
        invoke("render", tmp_path / "absent.yaml")


def test_crds_are_written_the_same_every_time(tmp_path: Path) -> None:
    definition = jobset_crd()
    definition["spec"]["names"] = {"kind": "JobSet"}
    source = tmp_path / "jobset.yaml"
    source.write_text(yaml.safe_dump(definition))
    first, second = tmp_path / "a" / "b", tmp_path / "c"
    invoke("crds", "--out", first, "--jobset-crd", source)
    invoke("crds", "--out", second, "--jobset-crd", source)
    names = sorted(path.name for path in first.iterdir())
    assert names == [
        "clustertrainingruntimes.trainer.kubeflow.org.yaml",
        "platforms.trainyard.dev.yaml",
        "tenantpolicies.trainyard.dev.yaml",
        "trainingruntimes.trainer.kubeflow.org.yaml",
        "trainjobs.trainer.kubeflow.org.yaml",
    ]
    assert all((first / name).read_bytes() == (second / name).read_bytes() for name in names)
    assert not any("&id" in (first / name).read_text() for name in names)


def test_another_crd_than_jobsets_is_refused(tmp_path: Path) -> None:
    source = tmp_path / "other.yaml"
    source.write_text("kind: Pod\n")
    with pytest.raises(TrainyardError, match="is not JobSet's"):
        invoke("crds", "--out", tmp_path / "out", "--jobset-crd", source)
