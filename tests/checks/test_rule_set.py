"""Rules by id, and the findings made from them."""

from __future__ import annotations

import pytest

from trainyard.checks.finding import Finding, Severity
from trainyard.checks.rule import Rule, RuleSet
from trainyard.scheduling.queues.rules import RULES as QUEUE_RULES
from trainyard.scheduling.scheduler.lint_rules import RULES as SCHEDULER_RULES
from trainyard.scheduling.topology.rules import RULES as TOPOLOGY_RULES

RULES = RuleSet((Rule.warning("a-b", "A is b", "It is c"),))


def test_a_finding_has_the_severity_of_its_rule() -> None:
    found = RULES.finding("spec.a", "a is 1", "set b", "a-b", object="x", file="f.yaml")
    assert found == Finding("spec.a", "a is 1", "set b", "a-b", severity=Severity.WARNING, object="x", file="f.yaml")


def test_a_finding_of_an_unknown_rule_is_an_error_of_the_program() -> None:
    with pytest.raises(KeyError, match="a-c"):
        RULES.finding("", "", "", "a-c")


def test_an_id_is_declared_once() -> None:
    with pytest.raises(ValueError, match="a-b is declared twice"):
        RuleSet((*RULES.values(), *RULES.values()))


def test_ids_of_all_checks_differ() -> None:
    ids = [*QUEUE_RULES, *TOPOLOGY_RULES, *SCHEDULER_RULES]
    assert len(ids) == len(set(ids))


def test_json_has_the_keys_of_the_command() -> None:
    found = RULES.finding("spec.a", "a is 1", "set b", "a-b", object="x")
    assert found.as_json() == {"path": "spec.a", "message": "a is 1", "fix": "set b", "rule": "a-b"}
    assert found.as_json({"queue": "object", "severity": "severity"}) == {"queue": "x", "severity": "warning"}
