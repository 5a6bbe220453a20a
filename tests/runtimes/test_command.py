"""The commands `trainyard runtimes`: what they print, write and exit with."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from typer.testing import CliRunner

from trainyard.cli import runtimes, runtimes_lifecycle
from trainyard.errors import TrainyardError
from trainyard.jobs.runtimes.folder import CatalogFolder, read_folder


def run(*arguments: str | Path, stdin: str | None = None) -> tuple[int, str]:
    built = typer.Typer()
    built.callback()(lambda: None)
    runtimes.register(built)
    result = CliRunner().invoke(built, ["runtimes", *map(str, arguments)], input=stdin)
    if isinstance(result.exception, TrainyardError):
        return 2, str(result.exception)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout


@pytest.fixture
def not_validated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtimes_lifecycle, "_validate_release", lambda *_: None)


JOB = {
    "apiVersion": "trainer.kubeflow.org/v1alpha1",
    "kind": "TrainJob",
    "metadata": {"name": "llm", "namespace": "vision"},
    "spec": {"runtimeRef": {"name": "mine-1.0"}},
}


def test_the_catalog_is_listed(catalog: CatalogFolder) -> None:
    code, text = run("list", "--folder", catalog.root)
    assert code == 0
    assert [cell.strip() for cell in re.split(" {2,}", text.splitlines()[1])] == [
        "mine",
        "1.1",
        "1.0 (deprecated, until 2027-06-30), 1.1, 1.2 (draft)",
        "plainml",
        "team",
        "Ours",
    ]
    listed = json.loads(run("list", "--folder", catalog.root, "-o", "json")[1])["runtimes"]
    assert [(each["name"], each["alias"]) for each in listed] == [("mine", "1.1")]
    assert [each["state"] for each in listed[0]["versions"]] == ["deprecated", "released", "draft"]


@pytest.mark.parametrize(("name", "version"), [("mine", "1.1"), ("mine@1.0", "1.0"), ("mine-1.2", "1.2")])
def test_a_runtime_is_shown(catalog: CatalogFolder, name: str, version: str) -> None:
    folder = ("--folder", catalog.root)
    body = yaml.safe_load(run("show", name, *folder, "-o", "yaml")[1])
    assert body["metadata"]["name"] == f"mine-{version}"
    assert json.loads(run("show", name, *folder, "-o", "json")[1])["object"] == body
    assert f"mine-{version}:" in run("show", name, *folder)[1]


@pytest.mark.usefixtures("not_validated")
def test_a_life_from_new_to_retired(tmp_path: Path) -> None:
    root = tmp_path / "ours"
    folder = ("--folder", root)
    assert run("new", "ours", "--framework", "jax", "--owner", "us", "--summary", "Our JAX", *folder)[0] == 0
    assert run("release", "ours", "1.0", "--alias", *folder)[0] == 0
    assert run("new", "ours", "--nodes", "2", *folder)[0] == 0
    code, text = run("release", "ours", "1.1", "--changes", "Two nodes", "--alias", "-o", "json", *folder)
    assert (code, json.loads(text)["done"][1]) == (0, "ours refers to 1.1 instead of 1.0")
    assert "nodes\n  node: completions: 1 → 2" in run("diff", "ours@1.0", "ours", *folder)[1]
    assert run("deprecate", "ours", "1.0", "--remove-after", "2999-01-01", *folder)[0] == 0
    index = root / "index.yaml"
    text = index.read_text()
    since = yaml.safe_load(text)["runtimes"]["ours"]["versions"]["1.0"]["deprecated"]["since"]
    index.write_text(text.replace("2999-01-01", "2020-01-02").replace(f"since: {since}", "since: 2020-01-01"))
    jobs = tmp_path / "jobs.yaml"
    jobs.write_text(yaml.safe_dump({**JOB, "spec": {"runtimeRef": {"name": "ours-1.0"}}}))
    code, text = run("retire", "ours", "1.0", "--jobs", jobs, *folder)
    assert (code, "vision/llm: references ours-1.0" in text) == (2, True)
    jobs.write_text("")
    assert run("retire", "ours", "1.0", "--jobs", jobs, *folder)[0] == 0
    assert sorted(path.name for path in root.rglob("*.yaml")) == ["1.1.yaml", "index.yaml"]
    assert run("alias", "ours", "1.1", *folder)[1] == "ours already refers to 1.1\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["show", "nobody"], "Runtime 'nobody' does not exist"),
        (["show", "mine@9.9"], "mine has no version '9.9'"),
        (["diff", "mine", "mine@2.0"], "use one of: 1.0, 1.1, 1.2"),
        (["list", "--folder", "/nowhere"], "this folder does not exist"),
        (["release", "mine", "1.0"], "was released on"),
        (["deprecate", "mine", "1.1"], "add either --remove-after or --withdraw"),
        (["deprecate", "mine", "1.1", "--withdraw", "--remove-after", "2999-01-01"], "add either"),
        (["retire", "mine", "1.0"], "the users of the version are unknown"),
        (["impact", "mine"], "No TrainJobs are given"),
        (["impact", "mine", "--jobs", "/offline-kubeconfig.yaml"], "cannot be read"),
        (["check", "--nothing"], None),
        (["list", "--python", "/nowhere.py"], "cannot be read"),
    ],
)
def test_bad_input_is_one_clear_message(catalog: CatalogFolder, arguments: list[str], message: str | None) -> None:
    before = read_folder(catalog.root).texts
    folder = [] if "--folder" in arguments else ["--folder", str(catalog.root)]
    code, text = run(*arguments, *folder)
    assert code == 2
    assert message is None or message in text
    assert read_folder(catalog.root).texts == before


def test_impact_names_the_jobs(catalog: CatalogFolder) -> None:
    options = ("--jobs", "-", "--folder", catalog.root, "-o", "json")
    found = json.loads(run("impact", "mine@1.0", *options, stdin=yaml.safe_dump(JOB))[1])
    assert found == {
        "runtimes": ["mine-1.0"],
        "jobs": [{"job": "vision/llm", "runtime": "mine-1.0", "effect": "changes"}],
    }
    assert json.loads(run("impact", "mine", *options, stdin=yaml.safe_dump(JOB))[1]) == {
        "runtimes": ["mine"],
        "jobs": [],
    }
    assert json.loads(run("impact", "mine@1.1", *options, stdin="")[1])["runtimes"] == ["mine-1.1", "mine"]


def test_what_cannot_be_resolved_is_listed_and_exits_1(
    catalog: CatalogFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    settings = yaml.safe_load((Path(__file__).resolve().parents[2] / "stacks" / "Pulumi.local.yaml").read_text())
    settings["config"]["trainyard:runtimes"] = {"mirrors": {"docker.io": "127.0.0.1:9/hub"}}
    stack = tmp_path / "stack.yaml"
    stack.write_text(yaml.safe_dump(settings))
    arguments = ("resolve", "--folder", catalog.root, "--config-file", stack, "--timeout", "5")
    code, text = run(*arguments, "-o", "json")
    (image,) = json.loads(text)["images"]
    assert (code, image["state"], image["digest"]) == (1, "unresolved", None)
    assert (image["asked"], image["message"]) == (
        "127.0.0.1:9/hub/library/python:3.13.1-slim-bookworm",
        "127.0.0.1:9 cannot be reached",
    )
    lock = (catalog.root / "images.lock").read_text()
    assert "unresolved:\n  docker.io/library/python:3.13.1-slim-bookworm: 127.0.0.1:9 cannot be reached\n" in lock
    assert run(*arguments)[0] == 1
    assert (catalog.root / "images.lock").read_text() == lock


@pytest.mark.cluster
def test_the_gate_of_a_pipeline_with_the_real_policy_server(catalog: CatalogFolder) -> None:
    folder = ("--folder", catalog.root)
    assert run("check", *folder)[0] == 0
    assert run("release", "mine", "1.2", "--alias", *folder)[0] == 0
    file = catalog.root / "mine" / "1.2.yaml"
    file.write_text(file.read_text().replace("numNodes: 1", "numNodes: 2"))
    code, text = run("check", *folder, "-o", "json")
    errors: list[Any] = [each for each in json.loads(text)["results"] if each["severity"] == "error"]
    assert (code, [Path(each["file"]).name for each in errors]) == (1, ["1.2.yaml"])
