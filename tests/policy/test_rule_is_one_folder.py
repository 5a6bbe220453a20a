"""A rule is one folder: a new one is known to every gate, to the command line and to the reference."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.extended_tree import extended, run
from tests.policy.decisions import STACK

pytestmark = pytest.mark.slow

TABLE = {
    "rule.yaml": """
id: ABC-002
title: Pods have no host name
description: A host name is not unique.
severity: error
state: deny
since: 0.1.0
reach: everywhere
matches:
  - {group: "", version: v1, kind: Pod, resource: pods, operations: [CREATE]}
fix: remove it
forbidden:
  - fields: ["{pod}.(hostname|subdomain)"]
    message: host names are not allowed
""",
    "cases.yaml": """
cases:
  - name: unset
    verdict: allow
    about: A pod without a host name.
    base: pod
  - name: subdomain
    verdict: deny
    about: A pod with a subdomain.
    base: pod
    add: {spec.subdomain: jobs}
    paths: [spec.subdomain]
""",
}
"""The files of a rule with a table of forbidden fields."""
QUESTIONS = Path(__file__).with_name("extension") / "questions.py"


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the project with the folder that ``trainyard policy new`` writes."""
    root = extended(tmp_path_factory.mktemp("extended"), {}, copied=["policies"])
    run(root, "-m", "trainyard", "policy", "new", "ABC-001", "some-thing", "--family", "naming")
    assert sorted(path.name for path in (root / "policies/naming").rglob("*.*")) == [
        "cases.yaml",
        "rule.rego",
        "rule.yaml",
    ]
    for name, text in TABLE.items():
        path = root / "policies/naming/ABC-002-no-host-names" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return root


@pytest.fixture(scope="module")
def known(tree: Path) -> dict[str, Any]:
    """Return what the library says, asked in a process of its own."""
    found: dict[str, Any] = json.loads(run(tree, str(QUESTIONS)).stdout)
    return found


def test_the_catalog_and_the_bundle_have_it(known: dict[str, Any]) -> None:
    assert {"ABC-001", "ABC-002"} <= set(known["rules"])
    assert known["rego"] == ["rules/ABC-001-some-thing.rego", "rules/ABC-002-no-host-names.rego"]
    assert known["catalog"]["state"] == "warn"
    assert known["index"] is True


def test_the_api_server_gets_its_policy_and_binding(known: dict[str, Any]) -> None:
    names = {(kind, name[:7]) for kind, name in known["policies"]}
    kinds = ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
    assert names == {(kind, rule) for kind in kinds for rule in ("abc-001", "abc-002")}


@pytest.mark.cluster
def test_its_cases_are_tested(tree: Path) -> None:
    command = ("-m", "trainyard", "policy", "test", "--rule", "ABC-001", "--rule", "ABC-002", "-o", "json")
    engines = json.loads(run(tree, *command).stdout)["engines"]
    assert [(each["engine"], each["passed"]) for each in engines] == [("OPA", 4)]


@pytest.mark.cluster
def test_a_file_is_checked_against_it(tree: Path) -> None:
    job = {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": "job", "namespace": "vision", "annotations": {"example.com/some-thing": "yes"}},
        "spec": {"runtimeRef": {"name": "torch-distributed"}},
    }
    (tree / "job.yaml").write_text(yaml.safe_dump(job))
    options = ("--config-file", str(STACK), "--rule", "ABC-001", "-o", "json", str(tree / "job.yaml"))
    report = json.loads(run(tree, "-m", "trainyard", "check", *options).stdout)
    (finding,) = report["results"]
    assert (finding["rule"], finding["message"]) == ("ABC-001", "the annotation is not allowed")


def test_the_reference_describes_it(tree: Path) -> None:
    page = run(tree, "-m", "trainyard", "policy", "docs").stdout
    assert "| [ABC-001](#abc-001) | Some thing | naming | warn | TrainJob |" in page
    assert "## ABC-001" in page
