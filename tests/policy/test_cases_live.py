"""The proof: the policy server and a real API server review every case as its author says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from tests.support import LiveCluster, require
from trainyard.data import data_folder
from trainyard.policy import load_rules
from trainyard.policy.rules.admission_rule import Gate
from trainyard.policy.testing.case_files import load_cases
from trainyard.policy.testing.rule_scaffold import new_rule

pytestmark = pytest.mark.cluster


def test_every_engine_reviews_every_case_as_its_author_says(kinds: LiveCluster) -> None:
    result = kinds.trainyard("policy", "test", "--kubeconfig", str(kinds.kubeconfig), "-o", "json")
    reports = json.loads(result.stdout)["engines"]
    assert [report["engine"] for report in reports] == ["OPA", "API server"]
    cases = load_cases(data_folder("policies"), load_rules())
    of_the_api_server = [case for case in cases if case.rule.gate is not Gate.OPA]
    for report, reviewed_cases in zip(reports, (cases, of_the_api_server), strict=True):
        assert [each for each in report["results"] if each["fault"]] == []
        assert report["passed"] == len(reviewed_cases)
    assert result.returncode == 0


def test_a_new_rule_passes_its_cases_and_a_wrong_case_is_reported(kinds: LiveCluster, tmp_path: Path) -> None:
    new_rule(tmp_path, "ABC-001", "some-thing", "naming")
    command = ("policy", "test", "--kubeconfig", str(kinds.kubeconfig), "--folder", str(tmp_path), "--rule", "ABC-001")
    require(kinds.trainyard(*command))
    path = next(tmp_path.glob("*/*/cases.yaml"))
    document = yaml.safe_load(path.read_text())
    wrong = {key: value for key, value in document["cases"][1].items() if key != "paths"}
    document["cases"].append({**wrong, "name": "wrong", "verdict": "allow"})
    path.write_text(yaml.safe_dump(document))
    result = kinds.trainyard(*command)
    assert result.returncode == 1
    assert "expected allow, got warn" in result.stdout


def test_nothing_is_left_behind(kinds: LiveCluster) -> None:
    kinds = "validatingadmissionpolicies,validatingadmissionpolicybindings,clusterroles,clusterrolebindings,crd"
    names = require(kinds.kubectl("get", kinds, "-o", "name"))
    assert "policy-test" not in names
