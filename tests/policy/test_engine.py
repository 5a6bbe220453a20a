"""Comparing evaluations, reading what an API server answers, and the command without a cluster."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from trainyard.cli.app import build
from trainyard.data import data_folder
from trainyard.errors import TrainyardError
from trainyard.kube.response import Response
from trainyard.policy.rules.rule_catalog import load_rules
from trainyard.policy.testing.case_run import EngineReport, run_cases
from trainyard.policy.testing.cases import Case, CaseContent, CaseDecision, Evaluation, compare
from trainyard.policy.testing.policy_messages import evaluation_of
from trainyard.policy.testing.scratch import Scratch
from trainyard.settings.platform import PolicyState

RULES = {rule.id: rule for rule in load_rules()}


def case(rule_id: str = "QUE-001", verdict: CaseDecision = CaseDecision.DENY, *paths: str) -> Case:
    content = CaseContent(about="A case.", object={"apiVersion": "v1", "kind": "Pod"}, paths=paths)
    return Case(RULES[rule_id], "a-case", verdict, content, Path("cases.yaml"))


def response(status: int, body: Mapping[str, Any], *warnings: str) -> Response:
    return Response(status, json.dumps(body).encode(), warnings)


def warning(text: str) -> str:
    return f"Validation failed for ValidatingAdmissionPolicy 'p' with binding 'b': {text}"


def denial(text: str) -> dict[str, Any]:
    return {
        "message": f"pods \"x\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: {text}"
    }


def test_every_violation_is_read_from_the_warnings() -> None:
    answer = response(422, denial("QUE-001 a: x"), warning("QUE-001 a, b[c/d]: x"), warning("QUE-001 e: y"), "other")
    evaluation = evaluation_of(case(), answer)
    assert (evaluation.verdict, evaluation.paths) == (CaseDecision.DENY, {"a", "b[c/d]", "e"})


def test_a_warning_without_denial_is_a_warning() -> None:
    assert evaluation_of(case(), response(201, {}, warning("QUE-001 a: x"))).verdict is CaseDecision.WARN


def test_a_missing_parameter_is_a_denial_with_a_path_of_its_own() -> None:
    text = "QUE-001 parameters: Platform is missing; name a queue"
    evaluation = evaluation_of(case(), response(422, denial(text), warning(text)))
    assert (evaluation.verdict, evaluation.paths) == (CaseDecision.DENY, {"parameters"})


@pytest.mark.parametrize(
    "answer",
    [
        response(403, {"message": "pods is forbidden: User cannot create resource"}),
        response(422, {"message": "Pod is invalid: spec.containers: Required value"}),
        response(201, {}, warning("expression 'x' resulted in error: no such key")),
        response(201, {}, warning("TEN-001 a: another rule")),
    ],
)
def test_a_response_of_another_rule_is_no_verdict(answer: Response) -> None:
    assert evaluation_of(case(), answer).verdict is None


def test_a_shape_rule_is_read_from_the_causes() -> None:
    causes = [
        {"message": "Invalid value: MLP-001: Only one", "field": "spec.mlPolicy"},
        {"message": "Required", "field": "spec"},
    ]
    answer = response(422, {"message": "invalid", "details": {"causes": causes}})
    assert evaluation_of(case("MLP-001"), answer) == Evaluation(CaseDecision.DENY, frozenset({"spec.mlPolicy"}))


@pytest.mark.parametrize(
    ("evaluation", "fault"),
    [
        (Evaluation(CaseDecision.DENY, frozenset({"a"})), ""),
        (Evaluation(CaseDecision.DENY, frozenset({"b"})), "expected paths [a], got [b]"),
        (Evaluation(CaseDecision.ALLOW), "expected deny, got allow []"),
        (Evaluation(None, error="no answer"), "not evaluated: no answer"),
    ],
)
def test_an_evaluation_is_compared_by_verdict_and_paths(evaluation: Evaluation, fault: str) -> None:
    assert compare(case("QUE-001", CaseDecision.DENY, "a"), evaluation).fault == fault


def test_a_report_names_the_file_and_the_fault() -> None:
    result = compare(case("QUE-001", CaseDecision.DENY, "a"), Evaluation(CaseDecision.ALLOW))
    lines = EngineReport("API server", (result,), 1.2).lines()
    assert lines[0] == "API server: 0 of 1 cases as expected (1.2 s)"
    assert lines[1].startswith("  ✗ QUE-001    0/1")
    assert lines[2:] == ["cases.yaml: QUE-001/a-case: A case.", "    expected deny, got allow []"]


def test_what_a_run_installs_matches_only_its_own_objects() -> None:
    scratch = Scratch("t0")
    labels = {"policy-test.trainyard.dev/run": "t0"}
    manifest = {"metadata": {"name": "x.trainyard.dev"}, "spec": {"matchConstraints": {}}}
    assert scratch.policy(manifest)["spec"] == {"matchConstraints": {"objectSelector": {"matchLabels": labels}}}
    binding = {"metadata": {"name": "x"}, "spec": {"policyName": "x", "matchResources": {}}}
    made = list(scratch.bindings(binding, "QUE-001", PolicyState.DENY, []))
    assert [each["spec"]["validationActions"] for each in made] == [["Warn"], ["Deny"]]
    for each in made:
        assert each["spec"]["matchResources"]["objectSelector"]["matchLabels"].items() >= labels.items()


def test_a_cluster_that_does_not_answer_is_named(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "c",
                "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
                "users": [{"name": "u", "user": {"token": "t"}}],
                "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            }
        )
    )
    with pytest.raises(TrainyardError, match=f"No control plane answers through {path}"):
        run_cases(program=None, kubeconfig=path, only=["LBL-003"])


def test_an_unknown_rule_is_named() -> None:
    with pytest.raises(TrainyardError, match="Rule XYZ-999 does not exist"):
        run_cases(program=None, only=["XYZ-999"])


def test_the_command_makes_a_rule_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(
        build(), ["policy", "new", "ABC-001", "some-thing", "--family", "naming", "--folder", str(tmp_path)]
    )
    assert result.exit_code == 0, result.output
    assert "ABC-001" in [rule.id for rule in load_rules(data_folder("policies"), tmp_path)]
