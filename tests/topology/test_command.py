"""`trainyard topology` on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
import yaml
from typer.testing import CliRunner

from trainyard.cli import topology

LOCAL = str(Path(__file__).resolve().parents[2] / "stacks" / "Pulumi.local.yaml")


@pytest.fixture
def app() -> typer.Typer:
    command = typer.Typer()
    topology.register(command)
    return command


def test_check_says_yes(app: typer.Typer) -> None:
    result = CliRunner().invoke(app, ["topology", "check", LOCAL, "-o", "json"])
    assert result.exit_code == 0
    assert json.loads(result.output) == {"ok": True, "results": []}


def test_check_says_no_with_the_findings(app: typer.Typer, tmp_path: Path) -> None:
    document = yaml.safe_load(Path(LOCAL).read_text())
    document["config"]["trainyard:fabric"]["tierNames"] = ["rack"]
    path = tmp_path / "Pulumi.bad.yaml"
    path.write_text(yaml.safe_dump(document))
    result = CliRunner().invoke(app, ["topology", "check", str(path), "-o", "json"])
    assert result.exit_code == 1
    answer = json.loads(result.output)
    assert answer["ok"] is False
    (finding,) = answer["results"]
    assert set(finding) == {"path", "message", "fix", "rule"}
    assert finding["rule"] == "fabric-tier-names"


def test_compile_prints_the_hyper_nodes(app: typer.Typer) -> None:
    result = CliRunner().invoke(app, ["topology", "compile", LOCAL])
    documents = list(yaml.safe_load_all(result.output))
    assert [document["metadata"]["name"] for document in documents] == ["rack-0", "rack-1", "spine-0"]


def test_show_draws_the_fabric(app: typer.Typer) -> None:
    result = CliRunner().invoke(app, ["topology", "show", LOCAL])
    assert "rack rack-0 … rack-1: 2 × 4 nodes" in result.output
