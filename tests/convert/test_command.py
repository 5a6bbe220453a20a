"""The command: files, folders and standard input, its formats and its exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from tests.convert.conversions import FOLDER, text_of
from trainyard.cli.app import build
from trainyard.errors import TrainyardError

INPUTS = FOLDER / "inputs"


def run(*arguments: str | Path, stdin: str = "") -> tuple[int, str, str]:
    result = CliRunner().invoke(build(), ["convert", *map(str, arguments)], input=stdin)
    if isinstance(result.exception, TrainyardError):
        raise result.exception
    return result.exit_code, result.stdout, result.stderr


def test_a_file_is_printed_with_its_report_beside_it() -> None:
    code, output, report = run(INPUTS / "pytorch-simple.yaml")
    assert code == 0
    (job,) = yaml.safe_load_all(output)
    assert job["spec"]["runtimeRef"]["name"] == "torch-distributed"
    assert report.startswith("# PyTorchJob language/mnist: TrainJob mnist\n")
    assert all(line.startswith("# ") for line in report.splitlines())
    assert "# 1 job converted: 0 lost, 3 changed, 9 the same\n" in report


def test_every_field_is_listed_on_demand() -> None:
    assert "lossless: metadata.name: TrainJob metadata.name" in run("--all", INPUTS / "jax-simple.yaml")[2]


def test_json_says_what_became_of_every_field() -> None:
    _, output, _ = run("-o", "json", INPUTS / "pytorch-unknown.yaml")
    (result,) = json.loads(output)["results"]
    assert sorted(result) == ["notes", "objects", "source"]
    note = next(note for note in result["notes"] if note["path"] == "spec.priority")
    assert note == {
        "path": "spec.priority",
        "value": "high",
        "severity": "lost",
        "message": "is not known here",
        "fix": "see whether the new job needs it, and add it by hand",
    }


def test_standard_input_and_folders_are_read(tmp_path: Path) -> None:
    assert run("-", stdin=text_of("jax-simple"))[1] == run(INPUTS / "jax-simple.yaml")[1]
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "job.yml").write_text(text_of("jax-simple"))
    (tmp_path / "notes.txt").write_text("no: [yaml")
    assert run(tmp_path)[1] == run(INPUTS / "jax-simple.yaml")[1]


def test_a_folder_gets_one_file_a_job(tmp_path: Path) -> None:
    out = tmp_path / "new" / "jobs"
    code, output, _ = run(INPUTS / "volcano-mpi.yaml", INPUTS / "list.yaml", "--out", out)
    assert (code, output) == (0, "")
    names = {path.name for path in out.iterdir()}
    assert names >= {"lm-mpi-job.yaml", "twice.yaml", "twice-paddlejob.yaml"}
    text = (out / "lm-mpi-job.yaml").read_text()
    assert [body["kind"] for body in yaml.safe_load_all(text)] == ["ConfigMap", "TrainingRuntime", "TrainJob"]
    assert text.startswith("# Job language/lm-mpi-job")


def test_jobs_of_one_name_in_two_namespaces_have_files_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(text_of("jax-simple"))
    (tmp_path / "b.yaml").write_text(text_of("jax-simple").replace("language", "vision"))
    run(tmp_path, "--out", tmp_path / "out")
    names = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert names == ["language-jaxjob-simple.yaml", "vision-jaxjob-simple.yaml"]


@pytest.mark.parametrize(("name", "code"), [("pytorch-simple", 0), ("pytorch-unknown", 1)])
def test_strict_says_no_when_something_is_lost(name: str, code: int) -> None:
    assert run("--strict", INPUTS / f"{name}.yaml")[0] == code
    assert run(INPUTS / f"{name}.yaml")[0] == 0


SKIPPED = {
    "a job that is not converted": text_of("ray-job-selector"),
    "an older version": "{apiVersion: ray.io/v1alpha1, kind: RayJob, metadata: {name: a}}",
    "a retired kind": "{apiVersion: kubeflow.org/v1, kind: MXJob, metadata: {name: a}}",
}


@pytest.mark.parametrize("skipped", SKIPPED)
def test_a_skipped_job_fails(skipped: str, tmp_path: Path) -> None:
    """Also beside jobs that are converted, which are written all the same."""
    text = f"{SKIPPED[skipped]}\n---\n{text_of('jax-simple')}"
    code, output, _ = run("-", stdin=text)
    assert code == 1
    assert "kind: TrainJob" in output
    assert run("-", "--out", tmp_path, stdin=text)[0] == 1
    assert len(list(tmp_path.iterdir())) == 1


def test_an_mxjob_is_recognized() -> None:
    _, output, report = run("-", stdin=SKIPPED["a retired kind"])
    assert output == ""
    assert "lost: kind: MXJob of kubeflow.org/v1 is skipped: the training operator runs no MXJobs" in report
    assert "move the program to another framework" in report


@pytest.mark.parametrize("option", ["--namespace", "-n"])
def test_jobs_get_a_namespace_if_they_name_none(option: str) -> None:
    own = text_of("jax-simple")
    assert run(option, "vision", "-", stdin=own)[1] == run("-", stdin=own)[1]
    without = own.replace("  namespace: language\n", "")
    assert without != own
    assert run(option, "language", "-", stdin=without)[1] == run("-", stdin=own)[1]


def test_a_runtime_can_be_named() -> None:
    _, output, report = run("--runtime", "torch-distributed", INPUTS / "pytorch-roles.yaml")
    (job,) = yaml.safe_load_all(output)
    assert job["spec"]["runtimeRef"] == {
        "apiGroup": "trainer.kubeflow.org",
        "kind": "ClusterTrainingRuntime",
        "name": "torch-distributed",
    }
    assert "lost: replicatedJobs[worker] cannot be set in a TrainJob on the runtime torch-distributed" in report


def test_a_runtime_of_another_framework_is_reported() -> None:
    report = run("--runtime", "torch-distributed", INPUTS / "jax-simple.yaml")[2]
    assert "lost: the runtime torch-distributed is for torch, the job for jax" in report


def test_a_runtime_that_is_not_there_is_refused() -> None:
    with pytest.raises(TrainyardError, match="Runtime 'mine' does not exist in the catalog"):
        run("--runtime", "mine", INPUTS / "pytorch-simple.yaml")


def test_other_objects_are_passed_by() -> None:
    code, output, report = run("--strict", "-", stdin="{apiVersion: v1, kind: Pod, metadata: {name: a}}")
    assert (code, output) == (0, "")
    assert "Pod of v1 is skipped" in report


def test_a_version_that_is_not_read_is_lost() -> None:
    code, _, report = run("--strict", "-", stdin="{apiVersion: ray.io/v1alpha1, kind: RayJob, metadata: {name: a}}")
    assert code == 1
    assert "lost: apiVersion: RayJob of ray.io/v1alpha1 is skipped (convert it to ray.io/v1 first)" in report


BAD = {
    "kind: [": "standard input is not valid YAML",
    "- a": "Document 1 of standard input is not a Kubernetes object",
    "{kind: Job}": "Document 1 of standard input is not a Kubernetes object",
    "{apiVersion: kubeflow.org/v1, kind: JAXJob}": "metadata.name is missing",
    "{apiVersion: kubeflow.org/v1, kind: JAXJob, metadata: {name: a}}": "spec.jaxReplicaSpecs.Worker is missing",
    text_of("jax-simple").replace("replicas: 2", "replicas: two"): (
        "JAXJob language/jaxjob-simple: spec.jaxReplicaSpecs.Worker.replicas must be a whole number, but is 'two'"
    ),
    text_of("jax-simple").replace("name: jax\n", "name: 5\n"): (
        "spec.jaxReplicaSpecs.Worker.template.spec.containers[0].name must be text, but is 5"
    ),
    text_of("pytorch-torchrun").replace('nprocPerNode: "8"', "nprocPerNode: many"): (
        "spec.nprocPerNode must be auto, cpu, gpu or a number, but is 'many'"
    ),
    text_of("spark-pi").replace("512m", "much"): "must be an amount such as 512m or 2g, but is 'much'",
    text_of("volcano-depends").replace("[prepare]", "[nobody]"): "has no task 'nobody' with pods",
    text_of("volcano-depends").replace("name: prepare\n", "name: prepare\n      dependsOn: {name: [train]}\n"): (
        "goes round in a circle"
    ),
    text_of("mpi-v2beta1").replace("OpenMPI", "LAM"): "must be one of OpenMPI, Intel, MPICH, but is 'LAM'",
    text_of("ray-job").replace("entrypoint:", "other:"): "spec.entrypoint is missing",
}


@pytest.mark.parametrize("text", BAD)
def test_bad_input_gets_one_clear_message(text: str) -> None:
    with pytest.raises(TrainyardError) as caught:
        run("-", stdin=text)
    assert BAD[text] in str(caught.value)
    assert caught.value.fix


def test_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(TrainyardError, match="cannot be read"):
        run(tmp_path / "none.yaml")
    (tmp_path / "file").write_text("")
    with pytest.raises(TrainyardError, match="cannot be written"):
        run(INPUTS / "jax-simple.yaml", "--out", tmp_path / "file" / "out")


def test_nothing_is_written_through_links(tmp_path: Path) -> None:
    target, out = tmp_path / "target", tmp_path / "out"
    target.write_text("kept")
    out.mkdir()
    (out / "mnist.yaml").symlink_to(target)
    assert run(INPUTS / "pytorch-simple.yaml", "--out", out)[0] == 0
    assert target.read_text() == "kept"
    assert not (out / "mnist.yaml").is_symlink()
    (tmp_path / "link").symlink_to(out)
    with pytest.raises(TrainyardError, match="is a link"):
        run(INPUTS / "pytorch-simple.yaml", "--out", tmp_path / "link")


def test_a_namespace_is_no_path(tmp_path: Path) -> None:
    job = text_of("pytorch-simple").replace("namespace: language", "namespace: ../../language")
    text = f"{job}\n---\n{job.replace('../../language', '../../vision')}"
    run("-", "--out", tmp_path / "a" / "b", stdin=text)
    assert all(path.is_relative_to(tmp_path / "a" / "b") for path in tmp_path.rglob("*.yaml"))


def test_a_link_out_of_the_folder_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "x.yaml").symlink_to("/dev/zero")
    with pytest.raises(TrainyardError, match="is a link out of"):
        run(tmp_path)
