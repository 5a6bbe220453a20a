"""Costs of the generated policies at the API server: below its limits for the largest objects that it accepts."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.cel_costs import Cost, Limits, costs
from benchmarks.largest import ACCEPTED, LARGEST, TEMPLATES, TOGETHER, small
from trainyard.policy.rules.admission_rule import EnforcementPoint
from trainyard.policy.rules.rule_catalog import load_rules

pytestmark = pytest.mark.cluster

USUAL_SHARE = 0.002
"""Largest share of a limit that an object of one template takes."""
RICH_SHARE = 0.5
"""Largest share of a limit that the rules about variables take of the most variables."""


@pytest.fixture(scope="module")
def largest() -> tuple[Limits, list[Cost]]:
    """The costs of the largest objects that the API server accepts."""
    return costs({kind: make(ACCEPTED[kind], 0) for kind, make in LARGEST.items()})


def test_every_policy_evaluates_the_largest_objects_within_the_limits(largest: tuple[Limits, list[Cost]]) -> None:
    limits, found = largest
    assert limits == Limits(expression=1_000_000, policy=10_000_000, conditions=2_500_000)
    assert [(each.rule, each.name, each.error) for each in found if each.error] == []
    assert [(each.rule, each.name, each.expression) for each in found if each.share(limits) >= 1] == []
    of_tenants = {
        rule.id for rule in load_rules() if rule.gate is EnforcementPoint.ADMISSION and _matches(rule.matches)
    }
    # Other policies have a match condition that such an object does not meet.
    assert of_tenants - {each.rule for each in found} <= {"GNG-001", "GNG-005", "OBJ-001", "TEN-006", "TEN-009"}


def _matches(matches: Any) -> bool:
    kinds = {(body["apiVersion"], body["kind"]) for body in (make(1, 0) for make in LARGEST.values())}
    return any((match.api_version, match.kind) in kinds and "CREATE" in match.operations for match in matches)


def test_costs_grow_with_the_object_and_not_faster(largest: tuple[Limits, list[Cost]]) -> None:
    """A fifth of the templates costs at least a seventh: what is quadratic would cost a twenty-fifth."""
    fewer = {}
    for kind, make in LARGEST.items():
        body = make(ACCEPTED[kind], 0)
        for items in _template_lists(body["spec"]):
            del items[TEMPLATES // 5 :]
        fewer[kind] = body
    limits, whole = largest
    small_costs = {(each.rule, each.name): each.total for each in costs(fewer)[1]}
    counted = [each for each in whole if each.share(limits) > 0.05]
    assert len(counted) > 20
    assert [(each.rule, each.name) for each in counted if each.total > 7 * small_costs[each.rule, each.name]] == []


def _template_lists(spec: dict[str, Any]) -> list[list[Any]]:
    inner = spec.get("template", {}).get("spec", {})
    lists = (
        spec.get("podTemplateOverrides"),
        spec.get("replicatedJobs"),
        spec.get("tasks"),
        inner.get("replicatedJobs"),
    )
    return [each for each in lists if each]


def test_an_object_of_one_template_takes_little_of_any_limit() -> None:
    limits, found = costs(small())
    assert {each.name for each in found} == {*LARGEST, "Pod"}
    assert [(each.rule, each.name, each.share(limits)) for each in found if each.share(limits) > USUAL_SHARE] == []


def test_as_many_variables_as_are_accepted_cost_little() -> None:
    """Every variable is compared with lists of names, and not with one pattern after the other."""
    rich = {kind: make(2, TOGETHER // TEMPLATES) for kind, make in LARGEST.items() if kind != "TrainJob"}
    limits, found = costs(rich)
    assert [(each.rule, each.name, each.error) for each in found if each.error] == []
    of_devices = [each for each in found if each.rule in ("ACC-003", "BND-004", "ENV-001")]
    assert len(of_devices) >= len(rich) * 2
    assert [(each.rule, each.name, each.share(limits)) for each in of_devices if each.share(limits) > RICH_SHARE] == []
