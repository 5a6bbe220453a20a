"""A runtime is one file with its entry in the index: a new one is known to every command and is installed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from tests.extended_tree import ROOT, extended, run
from tests.policy.decisions import STACK

pytestmark = pytest.mark.slow

NEW = ("--framework", "jax", "--gang", "volcano", "--owner", "us", "--summary", "Training on dunes")


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the project with the file that ``trainyard runtimes new`` writes."""
    root = extended(tmp_path_factory.mktemp("extended"), {}, copied=["runtimes"])
    before = {path for path in (root / "runtimes").rglob("*") if path.is_file()}
    command(root, "new", "dune", *NEW, "--folder", str(root / "runtimes"))
    after = {path for path in (root / "runtimes").rglob("*") if path.is_file()}
    assert after - before == {root / "runtimes" / "dune" / "1.0.yaml"}
    return root


def command(tree: Path, *arguments: str) -> str:
    return run(tree, "-m", "trainyard", "runtimes", *arguments).stdout


def test_it_is_listed_and_shown(tree: Path) -> None:
    options = ("--config-file", str(STACK), "-o", "json")
    listed = {each["name"]: each for each in json.loads(command(tree, "list", *options))["runtimes"]}
    assert (listed["dune"]["owner"], listed["dune"]["versions"][0]["state"]) == ("us", "draft")
    assert json.loads(command(tree, "show", "dune@1.0", *options))["object"]["metadata"]["name"] == "dune-1.0"


@pytest.mark.cluster
def test_it_is_checked(tree: Path) -> None:
    options = ("--config-file", str(STACK), "-o", "json")
    checked = json.loads(command(tree, "check", *options, "--folder", str(tree / "runtimes")))
    shipped = json.loads(run(ROOT, "-m", "trainyard", "runtimes", "check", *options).stdout)
    assert (checked["summary"]["files"], checked["summary"]["errors"]) == (shipped["summary"]["files"] + 1, 0)


def test_a_train_job_may_name_it(tree: Path) -> None:
    job = {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": "job", "namespace": "vision"},
        "spec": {"runtimeRef": {"name": "dune-1.0"}, "trainer": {"numNodes": 2}},
    }
    (tree / "job.yaml").write_text(yaml.safe_dump(job))
    (tree / "runtime.yaml").write_text(command(tree, "show", "dune@1.0", "--config-file", str(STACK), "-o", "yaml"))
    rendered = run(tree, "-m", "trainyard", "render", "-o", "json", str(tree / "job.yaml"), str(tree / "runtime.yaml"))
    (result,) = json.loads(rendered.stdout)["results"]
    assert result["errors"] == []
    assert {"JobSet", "PodGroup"} <= {body["kind"] for body in result["objects"]}


def test_the_program_installs_it(tree: Path) -> None:
    program = (
        "import json;"
        "from trainyard.data import data_folder;"
        "from trainyard.jobs.runtimes.installed_catalog import installed_catalog;"
        "catalog = installed_catalog([data_folder('runtimes')], ('*',), {}, ());"
        "print(json.dumps([body['metadata']['name'] for body in catalog.objects()]))"
    )
    assert "dune-1.0" in json.loads(run(tree, "-c", program).stdout)
