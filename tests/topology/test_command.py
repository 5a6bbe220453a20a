"""`trainyard topology` on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
import yaml
from click.testing import Result
from typer.testing import CliRunner

from trainyard.cli import topology
from trainyard.errors import TrainyardError

LOCAL = str(Path(__file__).resolve().parents[2] / "stacks" / "Pulumi.local.yaml")


@pytest.fixture
def app() -> typer.Typer:
    command = typer.Typer()
    topology.register(command)
    return command


def test_check_without_findings(app: typer.Typer) -> None:
    result = CliRunner().invoke(app, ["topology", "check", LOCAL, "-o", "json"])
    assert result.exit_code == 0
    assert json.loads(result.output) == {"ok": True, "results": []}


def test_check_with_findings(app: typer.Typer, tmp_path: Path) -> None:
    document = yaml.safe_load(Path(LOCAL).read_text())
    document["config"]["trainyard:fabric"]["tierNames"] = ["rack"]
    path = tmp_path / "Pulumi.bad.yaml"
    path.write_text(yaml.safe_dump(document))
    result = CliRunner().invoke(app, ["topology", "check", str(path), "-o", "json"])
    assert result.exit_code == 1
    answer = json.loads(result.output)
    assert answer["ok"] is False
    (finding,) = answer["results"]
    assert set(finding) == {"file", "domain", "severity", "path", "message", "fix", "rule"}
    assert finding["severity"] == "error"
    assert finding["rule"] == "fabric-tier-names"


def test_compile_prints_the_hyper_nodes(app: typer.Typer) -> None:
    result = CliRunner().invoke(app, ["topology", "compile", LOCAL])
    documents = list(yaml.safe_load_all(result.output))
    assert [document["metadata"]["name"] for document in documents] == ["rack-0", "rack-1", "spine-0"]


def test_show_draws_the_fabric(app: typer.Typer) -> None:
    result = CliRunner().invoke(app, ["topology", "show", LOCAL])
    assert "rack rack-0 … rack-1: 2 × 4 nodes" in result.output


def run(app: typer.Typer, *arguments: object, stdin: str | None = None) -> Result:
    return CliRunner().invoke(app, ["topology", *map(str, arguments)], input=stdin)


def test_compiled_hyper_nodes_are_valid_with_their_settings(app: typer.Typer, tmp_path: Path) -> None:
    for output in ("yaml", "json"):
        path = tmp_path / f"hyper-nodes.{output}"
        path.write_text(run(app, "compile", LOCAL, "-o", output).output)
        assert run(app, "check", path).output == "No issues found.\n"


def test_nodes_are_compared_with_settings(app: typer.Typer, tmp_path: Path) -> None:
    nodes = list(yaml.safe_load_all(run(app, "compile", LOCAL, "--nodes").output))
    assert nodes[0]["metadata"]["labels"]["topology.trainyard.dev/rack"] == "rack-0"
    path = tmp_path / "nodes.yaml"
    path.write_text(yaml.safe_dump_all([*nodes[1:], {**nodes[0], "metadata": {"name": "stranger"}}]))
    result = run(app, "check", LOCAL, path)
    assert result.exit_code == 0
    assert "rack-0-node-0" in result.output
    assert "'stranger' is in no HyperNode" in result.output
    assert "2 warnings" in result.output


def test_import_prints_settings_for_check_and_show(app: typer.Typer, tmp_path: Path) -> None:
    table = "node,rack,spine\nn0,r0,s\nn1,r1,s\n"
    printed = run(app, "import", "--from", "inventory", "-", stdin=table)
    assert printed.exit_code == 0
    path = tmp_path / "fabric.yaml"
    path.write_text(printed.output)
    assert run(app, "check", path).output == "No issues found.\n"
    assert "rack r0 … r1: 2 × 1 node" in run(app, "show", path).output
    hyper_nodes = run(app, "compile", "-", "--from", "inventory", stdin=table).output
    assert [body["metadata"]["name"] for body in yaml.safe_load_all(hyper_nodes)] == ["r0", "r1", "s"]


def test_show_writes_a_picture(app: typer.Typer, tmp_path: Path) -> None:
    path = tmp_path / "fabric.svg"
    assert run(app, "show", LOCAL, "--svg", path).exit_code == 0
    assert run(app, "show", LOCAL, "--svg", "-").output == path.read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["check", "/nowhere"], "cannot be read"),
        (["show", LOCAL, "--from", "guess"], "Source 'guess' does not exist"),
        (["import", "--from", "inventory"], "Neither a file nor a cluster is given"),
        (["import", "--from", "nodes", LOCAL], "contains no nodes"),
        (["import", "--from", "nodes", LOCAL, "--label", "rack"], "is not TIER=KEY"),
        (["show", LOCAL, "--svg", "/nowhere/x.svg"], "cannot be written"),
    ],
)
def test_a_mistake_is_one_message(app: typer.Typer, arguments: list[str], message: str) -> None:
    result = run(app, *arguments)
    assert isinstance(result.exception, TrainyardError)
    assert message in str(result.exception)
    assert result.exception.fix
