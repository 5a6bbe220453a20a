"""Exemptions as code: the same at every gate, and only until their day."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

import pytest
from pydantic import ValidationError

from tests.policy.decisions import NOW, RULES
from trainyard.errors import TrainyardError
from trainyard.policy.check.runner import RuleSetSession, expired_exemptions
from trainyard.policy.engines.vap.validating_admission_policies import admission_objects
from trainyard.policy.review import AdmissionContext, Review, document_of
from trainyard.settings.platform import PolicySettings

TODAY = datetime.date(2026, 6, 1)
EXEMPTION: dict[str, Any] = {
    "rule": "QUE-002",
    "namespace": "vision",
    "owner": "ann@example.com",
    "reason": "moving",
    "expires": "2026-07-01",
}


def settings(*changes: dict[str, Any]) -> PolicySettings:
    return PolicySettings.model_validate({"exemptions": [{**EXEMPTION, **change} for change in changes or ({},)]})


def conditions(given: PolicySettings, today: datetime.date | None = TODAY) -> Iterator[str]:
    for body in admission_objects(RULES, given, (), today=today):
        for variable in body["spec"].get("variables", ()):
            if variable["name"] == "applies" and body["metadata"]["name"] == "que-002.trainyard.dev":
                yield from variable["expression"].removeprefix("variables.factsKnown").split(" && (!")[1:]


def test_the_api_server_does_not_review_what_is_exempt() -> None:
    volcano = {"kind": "Job", "group": "batch.volcano.sh"}
    given = settings({}, {"kind": "Job"}, volcano, {"kind": "JobSet"}, {"kind": "Pod", "name": "a"})
    here = 'request.?namespace.orValue("") == "vision"'
    assert [each.partition(" && (request.operation")[0] for each in conditions(given)] == [
        f"({here}",
        f'({here} && request.kind.kind == "Job" && request.kind.group == "batch"',
        f'({here} && request.kind.kind == "Job" && request.kind.group == "batch.volcano.sh"',
        f'({here} && request.kind.kind == "JobSet"',
        f'({here} && request.kind.kind == "Pod" && request.kind.group == "" && request.?name.orValue("") == "a"',
    ]


def test_an_exemption_ends_by_the_time_that_the_api_server_sets() -> None:
    (condition,) = conditions(settings())
    limit = '< timestamp("2026-07-01T00:00:00Z")'
    assert f"timestamp(dyn(object).metadata.creationTimestamp) {limit}" in condition
    assert f"timestamp(entry.time) {limit}" in condition


def condition_of(rule: str, **exemption: Any) -> str:
    made = admission_objects(RULES, settings({"rule": rule, **exemption}), (), today=TODAY)
    spec = next(each["spec"] for each in made if each["metadata"]["name"] == f"{rule.lower()}.trainyard.dev")
    (condition,) = (each["expression"] for each in spec["matchConditions"] if each["name"] == "exemption-0")
    return str(condition)


def test_a_rule_that_reads_nothing_is_exempt_by_a_condition() -> None:
    assert condition_of("ESC-001").startswith('!(request.?namespace.orValue("") == "vision" && ')


def test_an_exempt_scale_needs_no_time() -> None:
    update = condition_of("BND-001", kind="Scale").partition(' : request.operation == "UPDATE" && ')[2]
    assert update.startswith('(request.?subResource.orValue("") == "scale" || dyn(object).metadata.?managedFields')


@pytest.mark.parametrize("day", [None, datetime.date(2026, 7, 1), datetime.date(2027, 1, 1)])
def test_an_exemption_ends_on_its_day(day: datetime.date | None) -> None:
    assert list(conditions(settings(), day)) == []


def test_the_policies_of_a_day_are_the_same_all_day() -> None:
    assert admission_objects(RULES, settings(), (), today=TODAY) == admission_objects(
        RULES, settings(), (), today=TODAY
    )


def test_the_policy_server_gets_the_expiry() -> None:
    given = settings({"kind": "Job"})
    document = document_of(Review("CREATE", {}), AdmissionContext(given, (), NOW))
    assert document["exemptions"] == [
        {"rule": "QUE-002", "namespace": "vision", "kind": "Job", "group": "batch", "expires": "2026-07-01T00:00:00Z"}
    ]


@pytest.mark.parametrize("change", [{"rule": "QUE-999"}, {"rule": "MLP-001"}])
def test_an_exemption_from_what_cannot_be_exempt_is_an_error(change: dict[str, Any]) -> None:
    with pytest.raises(TrainyardError, match=r"policies\.exemptions\[0\]\.rule"):
        list(conditions(settings(change)))


def test_more_exemptions_than_the_api_server_takes_are_an_error() -> None:
    with pytest.raises(TrainyardError, match="exempt a whole kind or namespace"):
        list(conditions(settings(*({"name": f"n{number}"} for number in range(49)))))


@pytest.mark.parametrize(
    "change", [{"owner": ""}, {"reason": ""}, {"expires": "soon"}, {"rule": "all"}, {"namespace": "*"}, {"until": 1}]
)
def test_an_exemption_says_who_why_and_until_when(change: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        settings(change)


def test_a_check_warns_of_expired_exemptions() -> None:
    given = settings({}, {"expires": "2026-06-01"})
    rule_set = RuleSetSession(RULES, AdmissionContext(given, (), NOW), Future(), None)
    (found,) = expired_exemptions(rule_set, "stack.yaml")
    assert (found.severity, found.file, found.path) == ("warning", "stack.yaml", "policies.exemptions[1]")
    assert "expired on 2026-06-01 (moving)" in found.message
