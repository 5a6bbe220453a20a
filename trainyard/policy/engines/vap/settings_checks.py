"""Checks of the policy settings of a stack against the catalog of rules."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from trainyard.checks.finding import Finding
from trainyard.errors import TrainyardError
from trainyard.policy.rules.admission_rule import AdmissionRule, EnforcementPoint
from trainyard.settings.platform import PolicySettings

_MOST_EXEMPTIONS: Final = 48
"""The API server allows 64 match conditions per policy; rules have some of their own."""


def reject_unknown(rules: Sequence[AdmissionRule], settings: PolicySettings) -> None:
    """Reject settings that do not match the catalog.

    Raises
    ------
    TrainyardError
        A rule or parameter does not exist, or a rule does not support the setting.
    """
    by_id = {rule.id: rule for rule in rules}
    findings = [
        *_unknown_names(by_id, settings),
        *_invalid_exemptions(by_id, settings),
        *_invalid_values(by_id, settings),
    ]
    if findings:
        raise TrainyardError("The policy settings are invalid", findings=findings)


def _unknown_names(by_id: Mapping[str, AdmissionRule], settings: PolicySettings) -> Iterator[Finding]:
    for section, names in (("states", settings.states), ("parameters", settings.parameters)):
        for rule_id in sorted(set(names) - set(by_id)):
            yield Finding(f"policies.{section}.{rule_id}", "this rule does not exist", _known(by_id))


def _invalid_exemptions(by_id: Mapping[str, AdmissionRule], settings: PolicySettings) -> Iterator[Finding]:
    exempted = Counter(exemption.rule for exemption in settings.exemptions)
    for index, exemption in enumerate(settings.exemptions):
        path, rule = f"policies.exemptions[{index}].rule", by_id.get(exemption.rule)
        if rule is None:
            yield Finding(path, f"rule {exemption.rule} does not exist", _known(by_id))
        elif rule.gate is EnforcementPoint.CRD:
            yield Finding(path, "this rule is part of the CRD; exemptions are not supported", "remove the entry")
        elif exempted[exemption.rule] > _MOST_EXEMPTIONS:
            message = f"{exempted[exemption.rule]} exemptions from one rule; at most {_MOST_EXEMPTIONS} are supported"
            yield Finding(path, message, "exempt a whole kind or namespace")


def _invalid_values(by_id: Mapping[str, AdmissionRule], settings: PolicySettings) -> Iterator[Finding]:
    for rule_id, state in settings.states.items():
        rule = by_id.get(rule_id)
        if rule and rule.gate is EnforcementPoint.CRD and state is not rule.state:
            message = "this rule is part of the CRD; its state cannot be set"
            yield Finding(f"policies.states.{rule_id}", message, "remove the entry")
    for rule_id, values in settings.parameters.items():
        if rule_id in by_id:
            try:
                by_id[rule_id].parameter_values(values)
            except ValueError as error:
                yield Finding(f"policies.parameters.{rule_id}", str(error), "see docs/reference/rules.md")


def _known(by_id: Mapping[str, AdmissionRule]) -> str:
    return f"known rules: {', '.join(sorted(by_id))}"
