"""The generated ValidatingAdmissionPolicies: reviewed text, and what must hold for any rule."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.golden import assert_golden_objects
from trainyard.errors import TrainyardError
from trainyard.policy.engines.vap.facts import FACTS_PREFIX, PLATFORM_FACTS_NAMESPACE, platform_facts, tenant_facts
from trainyard.policy.engines.vap.validating_admission_policies import admission_objects
from trainyard.policy.rules.admission_rule import MISSING_PARAMETER_FIXES, AdmissionRule, ParameterSource
from trainyard.policy.rules.rule_catalog import fragments, load_rules
from trainyard.settings.platform import PolicySettings, PolicyState

GOLDEN = Path(__file__).parent / "golden" / "admission.yaml"
EXAMPLES = (
    "ValidatingAdmissionPolicy ten-001.trainyard.dev",
    "ValidatingAdmissionPolicyBinding ten-001.trainyard.dev",
    "ValidatingAdmissionPolicy acc-002.trainyard.dev",
    "ValidatingAdmissionPolicyBinding acc-002.trainyard.dev",
    "ValidatingAdmissionPolicy lbl-003.trainyard.dev",
    "ValidatingAdmissionPolicyBinding lbl-003.trainyard.dev",
)
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
    made = copy.deepcopy(objects())
    facts = {f"ValidatingAdmissionPolicy {name}": _facts(spec) for name, spec in policies(made).items()}
    assert_golden_objects(GOLDEN, made, EXAMPLES, facts=facts)


def _facts(spec: dict[str, Any]) -> str:
    resources = sorted({name for rule in spec["matchConstraints"]["resourceRules"] for name in rule["resources"]})
    return f"{', '.join(resources)}: {len(spec['validations'])} validations, {len(spec.get('variables', ()))} variables"


def test_every_policy_fails_closed_and_is_bound_after_it() -> None:
    known: set[str] = set()
    for each in objects():
        if each["kind"] == "ValidatingAdmissionPolicy":
            assert each["spec"]["failurePolicy"] == "Fail"
            known.add(each["metadata"]["name"])
        else:
            assert each["spec"]["policyName"] in known
    assert known == {binding["policyName"] for binding in bindings(objects()).values()}


def test_no_policy_matches_a_wildcard_and_few_match_a_subresource() -> None:
    of_pods = {f"pods/{name}" for name in ("ephemeralcontainers", "eviction", "resize", "status")}
    scales = {f"{name}/scale" for name in ("deployments", "statefulsets", "replicasets", "replicationcontrollers")}
    subresources = {*of_pods, *scales, "queues/status", "resourcequotas/status", "serviceaccounts/token"}
    for spec in policies(objects()).values():
        for rule in spec["matchConstraints"]["resourceRules"]:
            for entry in (*rule["apiGroups"], *rule["apiVersions"], *rule["resources"], *rule["operations"]):
                assert "/" not in entry or entry in subresources
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


def test_what_is_being_deleted_is_reviewed_but_for_the_removal_of_finalizers() -> None:
    made = policies(objects())
    conditions = {name: [each["name"] for each in spec.get("matchConditions", ())] for name, spec in made.items()}
    excusing = [name for name, spec in made.items() if "deletionTimestamp" in str(spec.get("matchConditions"))]
    updated = {
        f"{rule.id.lower()}.trainyard.dev"
        for rule in RULES
        if rule.cel and rule.cel.unchanged and any("UPDATE" in match.operations for match in rule.matches)
    }
    # A finalizer keeps what the schedulers of these read.
    assert set(excusing) == updated - {"gng-006.trainyard.dev", "ten-015.trainyard.dev"}
    assert all("not-released" in conditions[name] for name in excusing)


def reading(source: ParameterSource) -> Iterator[tuple[AdmissionRule, dict[str, Any]]]:
    made = policies(objects())
    for rule in RULES:
        if rule.source is source and rule.cel is not None:
            yield rule, made[f"{rule.id.lower()}.trainyard.dev"]


def test_no_policy_needs_a_kind_of_a_custom_resource_definition() -> None:
    kinds = [spec["paramKind"] for spec in policies(objects()).values() if "paramKind" in spec]
    assert kinds
    assert all(kind == {"apiVersion": "v1", "kind": "Namespace"} for kind in kinds)
    references = [spec["paramRef"]["name"] for spec in bindings(objects()).values() if "paramRef" in spec]
    assert set(references) == {PLATFORM_FACTS_NAMESPACE}


def test_a_tenant_policy_is_read_without_a_look_up() -> None:
    found = [spec for _, spec in reading(ParameterSource.TENANT_POLICY)]
    assert found
    for spec in found:
        assert "paramKind" not in spec
        assert "namespaceObject" in next(each for each in spec["variables"] if each["name"] == "facts")["expression"]


@pytest.mark.parametrize("source", [ParameterSource.TENANT_POLICY, ParameterSource.PLATFORM])
def test_what_is_missing_is_said_with_the_id_of_the_rule(source: ParameterSource) -> None:
    for rule, spec in reading(source):
        first, *others = spec["validations"]
        if rule.state is PolicyState.DENY:
            fix = MISSING_PARAMETER_FIXES[source]
            assert first["message"] == f"{rule.id} parameters: {source} is missing; {fix}"
            assert first["expression"].startswith('variables.factsKnown || request.operation != "CREATE" || ')
        else:
            others.insert(0, first)
        assert all(each["expression"].startswith("!variables.applies || (") for each in others)


def test_a_missing_tenant_policy_stops_pods_in_tenant_namespaces_only() -> None:
    spec = policies(objects())["que-002.trainyard.dev"]
    ordinary = '!request.kind.group.contains(".") && !("trainyard.dev/tenant" in namespaceObject.metadata.?labels'
    assert ordinary in spec["validations"][0]["expression"]
    runtimes = policies(objects())["ten-001.trainyard.dev"]
    assert "trainyard.dev/tenant" not in runtimes["validations"][0]["expression"]


def test_facts_are_those_that_the_policies_read() -> None:
    for name, written in (("tenant-policy", tenant_facts({})), ("platform", platform_facts({}))):
        texts = {variable.name: variable.expression for variable in fragments()[name].variables}
        known = re.findall(r'"([a-z-]+)"', texts.pop("factsKnown").partition(".all(")[0])
        read = {key for text in texts.values() for key in re.findall(r'"policy\.trainyard\.dev/([a-z-]+)"', text)}
        assert {f"{FACTS_PREFIX}{each}" for each in known} == set(written)
        assert read == set(known)


def test_a_rule_that_reads_params_is_wrong() -> None:
    rule = next(rule for rule in RULES if rule.id == "QUE-002")
    body = rule.model_dump(by_alias=True)
    body["cel"]["validations"][0]["expression"] = "params.spec.queues.size() > 0"
    with pytest.raises(ValueError, match="policies have no params; use the variables of policies/lib"):
        AdmissionRule.model_validate(body)


def test_messages_start_with_the_rule_and_fit_a_warning() -> None:
    for name, spec in policies(objects()).items():
        rule_id = name.partition(".")[0].upper()
        for validation in spec["validations"]:
            assert validation["message"].startswith(f"{rule_id} ")
            assert len(validation["message"]) <= 300
            if "messageExpression" in validation:
                message = validation["messageExpression"].removeprefix('!variables.applies ? "" : ')
                assert message.startswith(f'"{rule_id} ')


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
    made = policies(objects(states={"QUE-002": PolicyState.WARN, "QUE-001": PolicyState.AUDIT}))
    for name in ("que-001.trainyard.dev", "que-002.trainyard.dev"):
        assert not any("parameters: " in each["message"] for each in made[name]["validations"])
    bound = bindings(objects(states={"QUE-001": PolicyState.AUDIT}))["que-001.trainyard.dev"]
    assert bound["paramRef"]["parameterNotFoundAction"] == "Allow"


def test_a_rule_that_is_off_is_not_there() -> None:
    assert not [name for name in policies(objects(states={"QUE-002": PolicyState.OFF})) if name.startswith("que-002")]


def test_a_parameter_of_the_stack_replaces_the_default() -> None:
    spec = policies(objects(parameters={"LBL-002": {"frameworks": ["torch", 'o"dd']}}))["lbl-002.trainyard.dev"]
    assert {"name": "frameworks", "expression": '["torch", "o\\"dd"]'} in spec["variables"]


@pytest.mark.parametrize(
    ("settings", "path", "text"),
    [
        ({"states": {"NOP-001": "warn"}}, "policies.states.NOP-001", "this rule does not exist"),
        ({"states": {"MLP-001": "warn"}}, "policies.states.MLP-001", "this rule is part of the CRD"),
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
    (finding,) = caught.value.findings
    assert finding.path == path
    assert text in finding.message
