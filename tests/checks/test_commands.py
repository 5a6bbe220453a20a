"""Formats of the commands that check settings: the same for all."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree as Xml

import pytest
import typer
from typer.testing import CliRunner

from trainyard.cli import queues, scheduler, topology

COMMANDS = {"queues": queues, "scheduler": scheduler, "topology": topology}
FAULTY = {
    "queues": (
        "apiVersion: scheduling.volcano.sh/v1beta1\nkind: Queue\nmetadata: {name: a}\nspec: {parent: missing}\n",
        "queue-parent-unknown",
    ),
    "scheduler": ("actions: allocate, backfil\ntiers: []\n", "scheduler-action"),
    "topology": (
        "apiVersion: topology.volcano.sh/v1alpha1\nkind: HyperNode\nmetadata: {name: a}\n"
        "spec: {tier: 1, members: []}\n",
        "hypernode-members",
    ),
}


def run(name: str, *arguments: str) -> tuple[int, str]:
    app = typer.Typer()
    COMMANDS[name].register(app)
    result = CliRunner().invoke(app, [name, "check", *arguments])
    return result.exit_code, result.output


@pytest.fixture(params=sorted(FAULTY))
def faulty(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, str, str]:
    """Return a command, a file in which it finds an error, and the rule."""
    name: str = request.param
    text, rule = FAULTY[name]
    path = tmp_path / "faulty.yaml"
    path.write_text(text)
    return name, str(path), rule


def test_sarif_names_command_rule_and_file(faulty: tuple[str, str, str]) -> None:
    name, path, rule = faulty
    code, output = run(name, path, "-o", "sarif")
    (sarif,) = json.loads(output)["runs"]
    found = [each for each in sarif["results"] if each["ruleId"] == rule]
    assert (code, sarif["tool"]["driver"]["name"]) == (1, f"trainyard {name} check")
    assert path in found[0]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]


def test_junit_has_a_failure(faulty: tuple[str, str, str]) -> None:
    name, path, rule = faulty
    code, output = run(name, path, "-o", "junit")
    suites = Xml.fromstring(output)
    assert (code, suites.get("name")) == (1, f"trainyard {name} check")
    assert rule in str(next(suites.iter("failure")).get("type"))


def test_annotations_and_text_name_file_and_rule(faulty: tuple[str, str, str]) -> None:
    name, path, rule = faulty
    code, output = run(name, path, "-o", "github")
    assert code == 1
    assert any(line.startswith(f"::error file={path}") and rule in line for line in output.splitlines())
    code, output = run(name, path)
    assert code == 1
    assert any(line.startswith(f"error: {path}: ") and line.endswith(f"[{rule}]") for line in output.splitlines())
    assert " error" in output.splitlines()[-1]


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_nothing_is_found_in_a_shipped_stack(name: str) -> None:
    path = Path(__file__).resolve().parents[2] / "stacks" / "Pulumi.local.yaml"
    assert run(name, str(path)) == (0, "No issues found.\n")
    assert json.loads(run(name, str(path), "-o", "json")[1]) == {"ok": True, "results": []}


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_a_file_without_findings_is_a_passed_test_and_is_counted(name: str) -> None:
    path = str(Path(__file__).resolve().parents[2] / "stacks" / "Pulumi.local.yaml")
    (suite,) = Xml.fromstring(run(name, path, "-o", "junit")[1])
    assert (suite.get("name"), suite.get("tests"), suite.get("failures")) == (path, "1", "0")
    assert run(name, path, "-o", "github") == (0, "0 errors, 0 warnings in 1 file\n")


def test_sarif_of_a_finding_without_an_object_names_its_path_only(tmp_path: Path) -> None:
    path = tmp_path / "faulty.yaml"
    path.write_text(FAULTY["scheduler"][0])
    (sarif,) = json.loads(run("scheduler", str(path), "-o", "sarif")[1])["runs"]
    for result in sarif["results"]:
        (location,) = result["locations"]
        assert not result["message"]["text"].startswith(":")
        assert [each["fullyQualifiedName"] for each in location["logicalLocations"]] == [
            result["message"]["text"].partition(":")[0]
        ]
