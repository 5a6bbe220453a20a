"""A cluster provider is one file: a new one is known to the settings, the command line and the reference."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from tests.extended_tree import extended, run

pytestmark = pytest.mark.slow

EXTENSION = Path(__file__).with_name("extension")


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the project with the new provider and a stack that has it."""
    added = {"trainyard/local/cluster/providers/mirage.py": EXTENSION / "mirage.py"}
    root = extended(tmp_path_factory.mktemp("extended"), added)
    (root / "stacks").unlink()
    (root / "stacks").mkdir()
    return root


def stack(tree: Path, **cluster: str) -> None:
    (tree / "stacks" / "Pulumi.sand.yaml").write_text(yaml.safe_dump({"config": {"trainyard:cluster": cluster}}))


def test_a_stack_may_name_the_provider(tree: Path) -> None:
    stack(tree, provider="mirage", context="dune", name="oasis")
    answer = run(tree, "-m", "trainyard", "cluster", "status", "--stack", "sand", "-o", "json")
    status = json.loads(answer.stdout)
    assert (status["name"], status["processes"][0]["name"]) == ("oasis", "mirage")
    assert "MIRAGE=" in run(tree, "-m", "trainyard", "cluster", "env", "--stack", "sand").stdout


def test_the_command_line_may_name_it(tree: Path) -> None:
    stack(tree, provider="embedded")
    command = ("-m", "trainyard", "cluster", "status", "--stack", "sand", "--provider")
    assert "mirage" in run(tree, *command, "mirage").stdout
    assert re.search(r"embedded.*node.*kind.*existing.*mirage", run(tree, *command, "moon", rc=2).stderr, re.DOTALL)


def test_an_error_lists_it(tree: Path) -> None:
    stack(tree, provider="moon")
    error = run(tree, "-m", "trainyard", "cluster", "status", "--stack", "sand", rc=2).stderr
    assert "must be embedded, node, kind, existing or mirage" in " ".join(error.split())


def test_its_settings_are_checked(tree: Path) -> None:
    stack(tree, provider="mirage")
    error = run(tree, "-m", "trainyard", "cluster", "status", "--stack", "sand", rc=2).stderr
    assert "provider mirage requires context" in " ".join(error.split())
    stack(tree, provider="kind", context="dune")
    error = run(tree, "-m", "trainyard", "cluster", "status", "--stack", "sand", rc=2).stderr
    assert "context and kubeconfig require provider existing or mirage, not kind" in " ".join(error.split())


def test_the_reference_of_the_settings_lists_it(tree: Path) -> None:
    page = run(tree, "-m", "tools.reference.settings").stdout
    assert "| `embedded` or `node` or `kind` or `existing` or `mirage` | required |" in page
    assert "existing: an existing cluster; mirage: water in the desert |" in page
    assert "required for existing or mirage |" in page
