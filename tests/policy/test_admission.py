"""The generated ValidatingAdmissionPolicies: reviewed text, and what must hold for any rule."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.golden import assert_golden
from trainyard.policy import admission_objects, load_rules
from trainyard.problem import TrainyardError
from trainyard.settings.platform import PolicySettings, PolicyState

GOLDEN = Path(__file__).parent / "golden" / "admission.yaml"
EXEMPT = ("jobset-system", "kubeflow-system", "volcano-system")
RULES = load_rules()


def objects(**settings: Any) -> list[dict[str, Any]]:
    return admission_objects(RULES, PolicySettings(**settings), EXEMPT)


def of_kind(kind: str, made: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    return (each for each in made if each["kind"] == kind)


def policies(made: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {each["metadata"]["name"]: each["spec"] for each in of_kind("ValidatingAdmissionPolicy", made)}


def bindings(made: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {each["metadata"]["name"]: each["spec"] for each in of_kind("ValidatingAdmissionPolicyBinding", made)}


def test_the_generated_objects_are_the_reviewed_ones() -> None:
    text = yaml.safe_dump_all(copy.deepcopy(objects()), sort_keys=False, width=120)
    assert_golden(GOLDEN, text)


def test_every_policy_fails_closed_and_is_bound_after_it() -> None:
    known: set[str] = set()
    for each in objects():
        if each["kind"] == "ValidatingAdmissionPolicy":
            assert each["spec"]["failurePolicy"] == "Fail"
            known.add(each["metadata"]["name"])
        else:
            assert each["spec"]["policyName"] in known
    assert known == {binding["policyName"] for binding in bindings(objects()).values()}


def test_no_policy_matches_a_subresource_or_a_wildcard_but_that_of_ephemeral_containers() -> None:
    for spec in policies(objects()).values():
        for rule in spec["matchConstraints"]["resourceRules"]:
            for entry in (*rule["apiGroups"], *rule["apiVersions"], *rule["resources"], *rule["operations"]):
                assert "/" not in entry or entry == "pods/ephemeralcontainers"
                assert "*" not in entry


def test_a_rule_for_labelled_namespaces_binds_tenants_only() -> None:
    spec = bindings(objects())["esc-001.trainyard.dev"]
    expressions = spec["matchResources"]["namespaceSelector"]["matchExpressions"]
    exempt = sorted({*EXEMPT, "kube-system", "kube-public", "kube-node-lease"})
    assert expressions == [
        {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": exempt},
        {"key": "trainyard.dev/tenant", "operator": "Exists"},
    ]
    assert "paramRef" not in spec


def test_what_is_being_deleted_is_never_judged() -> None:
    for spec in policies(objects()).values():
        assert "not-being-deleted" in [condition["name"] for condition in spec["matchConditions"]]


def test_a_missing_parameter_never_denies_an_update() -> None:
    for spec in bindings(objects()).values():
        if spec.get("paramRef", {}).get("parameterNotFoundAction") == "Deny":
            operations = [rule["operations"] for rule in spec["matchResources"]["resourceRules"]]
            assert all(each == ["CREATE"] for each in operations)


def test_a_missing_parameter_never_stops_the_platforms_namespaces() -> None:
    exempt = sorted({*EXEMPT, "kube-system", "kube-public", "kube-node-lease"})
    for spec in bindings(objects()).values():
        if spec.get("paramRef", {}).get("parameterNotFoundAction") == "Deny":
            bound = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": exempt}
            assert bound in spec["matchResources"]["namespaceSelector"]["matchExpressions"]


def test_a_missing_tenant_policy_stops_pods_in_tenant_namespaces_only() -> None:
    spec = bindings(objects())["que-002-pods.trainyard.dev"]
    label = {"key": "trainyard.dev/tenant", "operator": "Exists"}
    assert label in spec["matchResources"]["namespaceSelector"]["matchExpressions"]
    others = bindings(objects())["que-002.trainyard.dev"]["matchResources"]["resourceRules"]
    assert {rule["resources"][0] for rule in others}.isdisjoint({"pods"})


def test_every_binding_part_of_a_rule_covers_all_that_the_policy_matches() -> None:
    made = objects()
    for name, spec in policies(made).items():
        wanted = {
            (rule["apiGroups"][0], rule["resources"][0], operation)
            for rule in spec["matchConstraints"]["resourceRules"]
            for operation in rule["operations"]
        }
        covered: set[tuple[str, str, str]] = set()
        for binding in bindings(made).values():
            if binding["policyName"] == name:
                rules = binding["matchResources"].get("resourceRules", spec["matchConstraints"]["resourceRules"])
                covered |= {(r["apiGroups"][0], r["resources"][0], op) for r in rules for op in r["operations"]}
        assert covered == wanted, name


def test_messages_start_with_the_rule_and_fit_a_warning() -> None:
    for name, spec in policies(objects()).items():
        rule_id = name.partition(".")[0].upper()
        for validation in spec["validations"]:
            assert validation["message"].startswith(f"{rule_id} ")
            assert len(validation["message"]) <= 300
            if "messageExpression" in validation:
                assert validation["messageExpression"].startswith(f'"{rule_id} ')


@pytest.mark.parametrize(
    ("state", "actions"),
    [(PolicyState.DENY, ["Deny", "Audit"]), (PolicyState.WARN, ["Warn", "Audit"]), (PolicyState.AUDIT, ["Audit"])],
)
def test_the_state_decides_the_action(state: PolicyState, actions: list[str]) -> None:
    made = bindings(objects(states={"QUE-002": state}))
    assert {tuple(spec["validationActions"]) for name, spec in made.items() if name.startswith("que-002")} == {
        tuple(actions)
    }


def test_a_missing_parameter_denies_only_where_a_violation_does() -> None:
    made = bindings(objects(states={"QUE-002": PolicyState.WARN}))
    chosen = [spec for name, spec in made.items() if name.startswith("que-002")]
    assert {spec["paramRef"]["parameterNotFoundAction"] for spec in chosen} == {"Allow"}


def test_a_rule_that_is_off_is_not_there() -> None:
    assert not [name for name in policies(objects(states={"QUE-002": PolicyState.OFF})) if name.startswith("que-002")]


def test_a_parameter_of_the_stack_replaces_the_default() -> None:
    spec = policies(objects(parameters={"LBL-002": {"frameworks": ["torch", 'o"dd']}}))["lbl-002.trainyard.dev"]
    assert {"name": "frameworks", "expression": '["torch", "o\\"dd"]'} in spec["variables"]


@pytest.mark.parametrize(
    ("settings", "path", "text"),
    [
        ({"states": {"NOP-001": "warn"}}, "policies.states.NOP-001", "there is no such rule"),
        ({"states": {"MLP-001": "warn"}}, "policies.states.MLP-001", "the CRD itself carries this rule"),
        (
            {"parameters": {"LBL-002": {"frameworks": "torch"}}},
            "policies.parameters.LBL-002",
            "is not a list of strings",
        ),
        ({"parameters": {"LBL-002": {"names": []}}}, "policies.parameters.LBL-002", "unknown parameter 'names'"),
        ({"parameters": {"LBL-002": {"frameworks": ["x"] * 65}}}, "policies.parameters.LBL-002", "at most 64"),
    ],
)
def test_wrong_settings_are_named(settings: dict[str, Any], path: str, text: str) -> None:
    with pytest.raises(TrainyardError) as caught:
        objects(**settings)
    (problem,) = caught.value.problems
    assert problem.path == path
    assert text in problem.message
