"""What the admission benchmark computes and generates, without any server."""

from __future__ import annotations

import re
from typing import Any

import pytest

from benchmarks.admission.agreement import comparable_cases, compared
from benchmarks.admission.calls import Said
from benchmarks.admission.report import percentile, ratios, summary, table
from benchmarks.admission.scene import resource_of
from benchmarks.admission.templates import entry_point, gatekeeper_objects, kind_of, library, webhook_rules
from trainyard.policy.rules.admission_rule import EnforcementPoint
from trainyard.policy.rules.rule_catalog import load_rules
from trainyard.policy.testing.cases import CaseDecision
from trainyard.settings.platform import PolicySettings, PolicyState

RULES = {rule.id: rule for rule in load_rules()}
SYSTEM = ("kube-system",)


@pytest.mark.parametrize(
    ("share", "expected"), [(0.5, 2.0), (0.51, 3.0), (0.75, 3.0), (0.99, 4.0), (1.0, 4.0), (0.01, 1.0)]
)
def test_a_percentile_is_a_sample(share: float, expected: float) -> None:
    assert percentile([4.0, 1.0, 3.0, 2.0], share) == expected


@pytest.mark.parametrize(("samples", "share"), [([], 0.5), ([1.0], 0.0), ([1.0], 1.5)])
def test_no_percentile_is_invented(samples: list[float], share: float) -> None:
    with pytest.raises(ValueError, match="no percentile"):
        percentile(samples, share)


def figures(p50: float, processor: float = 0.004) -> dict[str, Any]:
    return summary([p50 / 1000] * 4, {"kube-apiserver": processor})


def test_ratios_compare_with_no_policy_with_gatekeeper_and_what_both_add() -> None:
    found = ratios({"none": figures(2), "platform": figures(3), "gatekeeper": figures(6, 0.012)})
    assert found["platform"] == {
        "p50_to_no_policy": 1.5,
        "p99_to_no_policy": 1.5,
        "p50_to_gatekeeper": 0.5,
        "p99_to_gatekeeper": 0.5,
        "added_to_gatekeeper": 0.25,
        "processor_to_gatekeeper": 0.33,
    }
    assert found["gatekeeper"]["added_to_gatekeeper"] == 1.0


def test_no_ratio_is_reported_of_what_gatekeeper_does_not_add() -> None:
    assert "added_to_gatekeeper" not in ratios({"none": figures(2), "gatekeeper": figures(2)})["none"]


def test_the_table_has_a_row_a_request_and_contender() -> None:
    rows = table({"Pod create": {"none": figures(2), "gatekeeper": figures(6)}}).splitlines()
    assert rows[2] == "| Pod create | none | 2.0 | 2.0 | 1.00 | 1.00 | 0.33 | 0.33 | 1.0 |"
    assert len(rows) == 4
    assert {row.count("|") for row in rows} == {10}


def test_every_rule_that_no_crd_carries_has_a_template_and_a_constraint() -> None:
    templates, constraints = gatekeeper_objects(RULES.values(), PolicySettings(), SYSTEM)
    wanted = {kind_of(rule) for rule in RULES.values() if rule.gate is not EnforcementPoint.CRD}
    assert {each["spec"]["crd"]["spec"]["names"]["kind"] for each in templates} == wanted
    assert {each["kind"] for each in constraints} == wanted
    assert all(each["metadata"]["name"] == each["spec"]["crd"]["spec"]["names"]["kind"].lower() for each in templates)


def test_templates_read_nothing_that_gatekeeper_does_not_have() -> None:
    templates, _ = gatekeeper_objects(RULES.values(), PolicySettings(), SYSTEM)
    for template in templates:
        source = template["spec"]["targets"][0]["code"][0]["source"]
        packages = {text.splitlines()[0] for text in source["libs"]}
        for text in (source["rego"], *source["libs"]):
            code = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
            assert set(re.findall(r"\bdata\.([a-z]+)", code)) <= {"lib", "inventory"}
            assert set(re.findall(r"\binput\.([a-z]+)", code)) <= {"review", "parameters"}
            assert {f"package {each}" for each in re.findall(r"^import data\.(lib\.\w+)", code, re.M)} <= packages
            assert "rego.v1" not in code


def test_a_template_brings_the_libraries_its_rule_imports_and_no_others() -> None:
    packages = [text.splitlines()[0] for text in library("import data.lib.queues\n")]
    names = ("listed_controllers", "pod_templates", "queues", "request")
    assert packages == [f"package lib.{name}" for name in names]


@pytest.mark.parametrize(
    ("rule", "state", "asked", "unasked"),
    [
        ("QUE-002", PolicyState.DENY, ["TenantPolicy is missing", "ordinary if", "spec.suspend"], []),
        ("QUE-002", PolicyState.WARN, ["request.tenant_policy"], ["TenantPolicy is missing"]),
        ("QUE-001", PolicyState.DENY, ["Platform is missing", "request.platform"], ["ordinary"]),
        ("OBJ-001", PolicyState.DENY, ["readable := true", "touching := {}", '"DELETE"'], ["suspend"]),
        ("TEN-006", PolicyState.DENY, ['"labels"'], ["spec.suspend"]),
    ],
)
def test_the_entry_point_says_when_a_rule_applies(
    rule: str, state: PolicyState, asked: list[str], unasked: list[str]
) -> None:
    text = entry_point(RULES[rule], state)
    assert [part for part in asked if part not in text] == []
    assert [part for part in unasked if part in text] == []


@pytest.mark.parametrize(
    ("rule", "excluded", "selected"),
    [("QUE-001", False, False), ("QUE-002", True, False), ("ESC-001", True, True)],
)
def test_the_reach_of_a_rule_is_the_match_of_its_constraint(rule: str, excluded: bool, selected: bool) -> None:
    _, [constraint] = gatekeeper_objects([RULES[rule]], PolicySettings(), SYSTEM)
    match = constraint["spec"]["match"]
    assert ("excludedNamespaces" in match, "namespaceSelector" in match) == (excluded, selected)


def test_states_are_enforcement_actions() -> None:
    settings = PolicySettings(states={"QUE-001": PolicyState.WARN, "QUE-002": PolicyState.OFF})
    _, constraints = gatekeeper_objects([RULES["QUE-001"], RULES["QUE-002"]], settings, SYSTEM)
    assert [each["spec"]["enforcementAction"] for each in constraints] == ["warn"]


def test_gatekeeper_is_asked_about_every_kind_that_is_reviewed() -> None:
    found = {(each["apiGroups"][0], each["resources"][0]): each["operations"] for each in webhook_rules(RULES.values())}
    assert found["trainer.kubeflow.org", "trainjobs"] == ["CREATE", "DELETE", "UPDATE"]
    assert found["jobset.x-k8s.io", "jobsets"] == ["CREATE", "DELETE", "UPDATE"]
    assert "CREATE" in found["", "pods"]


@pytest.mark.parametrize(
    ("kind", "plural"),
    [("TenantPolicy", "tenantpolicies"), ("PriorityClass", "priorityclasses"), ("Platform", "platforms")],
)
def test_kinds_are_found_under_their_plural(kind: str, plural: str) -> None:
    assert resource_of({"apiVersion": "example.com/v1", "kind": kind, "metadata": {}}).plural == plural


def test_cases_of_both_verdicts_are_compared_for_each_kind() -> None:
    found = {(case.content.object["kind"], case.verdict) for case in comparable_cases() if case.content.object}
    kinds = ("TrainJob", "JobSet", "Pod")
    assert {(kind, verdict) for kind in kinds for verdict in (CaseDecision.ALLOW, CaseDecision.DENY)} <= found


def said(*denials: str, warnings: tuple[str, ...] = (), message: str = "") -> Said:
    return Said(not denials, frozenset(denials), frozenset(warnings), message)


@pytest.mark.parametrize(
    ("policies", "platform", "gatekeeper", "verdict", "difference"),
    [
        (said(), said(), said(), "allowed", ""),
        (said("QUE-001"), said("QUE-001"), said("QUE-001", "QUE-002"), "refused", ""),
        (said("QUE-001"), said("QUE-001"), said(), "different", "one allows, the other refuses"),
        (said(), said(), said("QUE-001"), "different", "one allows, the other refuses"),
        (said("QUE-001"), said("QUE-001"), said("QUE-002"), "different", "other rules refuse it"),
        (said(warnings=("IMG-001",)), said(warnings=("IMG-001",)), said(), "different", "other rules warn of it"),
        (said(), said(), said(warnings=("LBL-004",)), "allowed", ""),
        (said(), said("ACC-002", message="ACC-002 JobSet big spec: no"), said(), "refused_for_what_is_rendered", ""),
    ],
)
def test_contenders_agree_or_it_is_said_where_not(
    policies: Said, platform: Said, gatekeeper: Said, verdict: str, difference: str
) -> None:
    assert compared(policies, platform, gatekeeper, frozenset({"LBL-004"})) == (verdict, difference)
