"""The rule folders: every rule is complete, has the cases that show it, and keeps its id."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase as fnmatch

import pytest

from tests.policy.shipped import CASES, POLICIES, RULES
from trainyard.policy.rule_reference import reference
from trainyard.policy.rules.admission_rule import POD_CONTROLLERS, AdmissionRule, EnforcementPoint
from trainyard.policy.rules.rule_catalog import rego_source
from trainyard.policy.testing.case_files import shared_bases
from trainyard.policy.testing.cases import Case, CaseDecision
from trainyard.policy.testing.rule_scaffold import WITHDRAWN
from trainyard.settings.platform import PolicyState

CONTROLLERS = {(f"{group}/v1" if group else "v1", kind) for group, kind in POD_CONTROLLERS}

VALUELESS = {
    "the message names the only value that is rejected": {
        ("ACC-005", "adminAccess: true uses devices that others hold"),
        ("ESC-001", "true shares the network, the PIDs or the IPC of the host, which is not allowed"),
        ("ESC-001", "true makes a HostProcess container, which is not allowed"),
        ("ESC-002", "privileged containers are not allowed"),
        ("ESC-002", "type Unconfined is not allowed"),
        ("ESC-004", "allowPrivilegeEscalation should be false"),
    },
    "the field is unset, or has no field for the value": {
        ("BND-004", "all pods together request more than a scheduler counts, which is 8P and 8E of memory"),
        ("ESC-004", "containers should not run as root"),
        ("RST-001", "restarts that ignore maxRestarts are unlimited"),
        ("RST-001", "activeDeadlineSeconds is unset"),
        ("SHM-001", "the volume at /dev/shm has no sizeLimit"),
        ("SHM-001", "/dev/shm requires a writable emptyDir of medium Memory, mounted without subPath"),
        ("TEN-005", "a DaemonSet has a pod on every node, chosen by its name"),
        ("TOP-001", "no pod belongs to a subgroup without matchLabelKeys, so its limit is ignored"),
    },
    "the value is an object or a change, and the path names it": {
        ("GNG-004", "dependsOn is circular, names an unknown task, or forms a chain of more than eight tasks"),
        ("LBL-001", "the label is ignored on a pod template"),
        ("LBL-001", "a patch must not set the ancestor step of a replicatedJob"),
        ("RUN-001", "spec of a released version is immutable"),
        ("RUN-001", "the annotation of a released version is immutable"),
        ("RUN-001", "a released version cannot become an alias"),
        ("RUN-001", "a released version must be deprecated before it is deleted"),
    },
    "the value is a setting of the stack, and the message names it": {
        ("TOP-001", "the scheduler plug-in network-topology-aware is disabled, so hard limits are ignored"),
        ("TOP-002", "the scheduler plug-in network-topology-aware is disabled, so hard limits are ignored"),
    },
}
"""Messages without a placeholder, by the reason."""

REGO_MESSAGE = re.compile(r'(?:"message":|message :=) (?:sprintf\()?"((?:[^"\\]|\\.)*)"')
PLACEHOLDER = re.compile(r"\{[a-zA-Z]+\}")


def of(rule: AdmissionRule, *verdicts: CaseDecision) -> list[Case]:
    return [case for case in CASES if case.rule.id == rule.id and case.verdict in verdicts]


def ids(rule: AdmissionRule) -> str:
    return rule.id


def test_ids_of_withdrawn_rules_are_not_given_again() -> None:
    assert WITHDRAWN.isdisjoint(rule.id for rule in RULES)


@pytest.mark.parametrize("rule", RULES, ids=ids)
def test_a_rule_has_allowed_and_refused_cases(rule: AdmissionRule) -> None:
    assert of(rule, CaseDecision.ALLOW)
    assert of(rule, CaseDecision.DENY if rule.state is PolicyState.DENY else CaseDecision.WARN)


@pytest.mark.parametrize("rule", RULES, ids=ids)
def test_a_rule_has_a_case_of_every_kind_it_reviews(rule: AdmissionRule) -> None:
    reviewed = {
        (subject["apiVersion"], subject["kind"])
        for case in of(rule, *CaseDecision)
        if (subject := case.content.object or case.content.old_object)
    }
    # The pod templates of controllers are at one of two paths.
    matched = {(match.api_version, match.kind) for match in rule.matches}
    replicated = {kind for kind in matched if kind[1] != "CronJob"} & CONTROLLERS
    assert reviewed <= matched
    assert reviewed >= matched - replicated
    assert bool(reviewed & replicated) == bool(replicated)


@pytest.mark.parametrize("rule", RULES, ids=ids)
def test_a_rule_has_a_refused_case_of_every_operation_it_reviews(rule: AdmissionRule) -> None:
    refused = {case.operation for case in of(rule, CaseDecision.DENY, CaseDecision.WARN)}
    assert refused == {operation for match in rule.matches for operation in match.operations}, "add a case"


@pytest.mark.parametrize("rule", RULES, ids=ids)
def test_a_fix_continues_the_message_before_it(rule: AdmissionRule) -> None:
    assert rule.fix[0].islower()


def test_a_message_has_the_value_or_the_value_has_no_text() -> None:
    without = {
        (rule.id, validation.message)
        for rule in RULES
        for validation in (rule.cel.validations if rule.cel else ())
        if not PLACEHOLDER.search(validation.message)
    }
    assert without == set().union(*VALUELESS.values()), "name the value, or list the message in VALUELESS"


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule.cel], ids=ids)
def test_both_languages_have_the_same_messages(rule: AdmissionRule) -> None:
    """A placeholder matches a constant of the other language, and a placeholder alone any message."""
    source = rego_source(rule, POLICIES / rule.family / f"{rule.id}-{rule.slug}")
    rego = {re.sub(r"%[vsd]", "*", text).replace('\\"', "") for text in REGO_MESSAGE.findall(source)}
    cel = {PLACEHOLDER.sub("*", each.message).replace('"', "") for each in rule.cel.validations} if rule.cel else set()
    for these, others in ((rego, cel), (cel, rego)):
        unmatched = [text for text in these if not any(same(text, each) for each in others)]
        assert unmatched == []


def same(text: str, other: str) -> bool:
    return any(
        one == each or ((each == "*" or "*" not in one) and fnmatch(one, each))
        for one, each in ((text, other), (other, text))
    )


def test_every_shared_base_is_used() -> None:
    paths = [POLICIES / "lib" / "bases.yaml", *POLICIES.glob("*/*/cases.yaml")]
    used = {name for path in paths for name in re.findall(r"\bbase: ([a-z-]+)", path.read_text())}
    assert set(shared_bases()) <= used


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_a_case_says_what_it_shows(case: Case) -> None:
    assert 0 < len(case.content.about) <= 160


def test_the_rule_reference_is_up_to_date() -> None:
    page = POLICIES.parent / "docs/reference/rules.md"
    assert page.read_text() == reference(RULES, CASES), "run: trainyard policy docs --out docs/reference/rules.md"


def test_shape_rules_are_those_of_the_custom_resource_definitions() -> None:
    from trainyard.api import shape_rules

    carried = {rule.id: rule for rule in RULES if rule.gate is EnforcementPoint.CRD}
    assert set(carried) <= set(shape_rules())
    assert {rule_id: rule.fix for rule_id, rule in carried.items()} == {
        rule_id: shape_rules()[rule_id].fix for rule_id in carried
    }
