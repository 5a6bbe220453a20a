"""Rules as ValidatingAdmissionPolicies: what the API server itself enforces, with no process to lose."""

from __future__ import annotations

import datetime
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from trainyard.api.constants import PLATFORM_API_VERSION, PLATFORM_NAME, TENANT_POLICY_NAME
from trainyard.policy.catalogue import fragments
from trainyard.policy.parameters import ParameterValue, cel_literal
from trainyard.policy.rule import PARTS, Cel, Fragment, Gate, Match, ParameterSource, Part, Reach, Rule, Validation
from trainyard.problem import Problem, TrainyardError
from trainyard.settings.platform import PolicySettings, PolicyState

__all__ = ["NAMESPACE_LABEL", "TENANT_LABEL", "admission_objects", "policy_name", "refuse_unknown", "rule_state"]

API_VERSION: Final = "admissionregistration.k8s.io/v1"
NAMESPACE_LABEL: Final = "kubernetes.io/metadata.name"
TENANT_LABEL: Final = "trainyard.dev/tenant"
"""Label of a tenant's Namespace; there a missing TenantPolicy stops Pods and Jobs too."""

_DOMAIN = "trainyard.dev"
_ACTIONS = {
    PolicyState.DENY: ["Deny", "Audit"],
    PolicyState.WARN: ["Warn", "Audit"],
    PolicyState.AUDIT: ["Audit"],
}
_PARAMETER_NAMES = {ParameterSource.TENANT_POLICY: TENANT_POLICY_NAME, ParameterSource.PLATFORM: PLATFORM_NAME}
_REFERENCE = re.compile(r"\bvariables\.([A-Za-z]+)")
_MOST_EXEMPTIONS: Final = 48
"""An API server takes 64 conditions a policy; rules have some of their own."""
_PLACEHOLDER = re.compile(r"\{([a-z][A-Za-z]*)\}")


@dataclass(frozen=True)
class _Slice:
    """The part of a rule that one binding covers."""

    suffix: str
    matches: tuple[Match, ...] | None
    operations: tuple[str, ...] | None
    namespaces: tuple[dict[str, Any], ...]
    missing_denies: bool


def policy_name(rule_id: str, suffix: str = "") -> str:
    """Return the name of a rule's policy, or of one of its bindings."""
    return f"{rule_id.lower()}{f'-{suffix}' if suffix else ''}.{_DOMAIN}"


def rule_state(rule: Rule, settings: PolicySettings) -> PolicyState:
    """Return what a violation of the rule causes under these settings."""
    return settings.states.get(rule.id, rule.state)


def admission_objects(
    rules: Iterable[Rule],
    settings: PolicySettings,
    exempt_namespaces: Iterable[str],
    *,
    library: Mapping[str, Fragment] | None = None,
    today: datetime.date | None = None,
) -> list[dict[str, Any]]:
    """Return the policies and their bindings, each policy before its bindings.

    Parameters
    ----------
    rules
        The catalogue.
    settings
        State and parameters of single rules where a stack sets them.
    exempt_namespaces
        Namespaces of the platform: tenant rules do not bind them, and their service accounts write what
        the platform trusts.
    library
        Shared CEL fragments by name; the shipped ones when absent.
    today
        The current day (UTC), by which exemptions end; no exemption holds when absent.

    Raises
    ------
    TrainyardError
        The settings name a rule or parameter that does not exist, or the state of a rule that only the CRDs enforce.
    """
    rules = list(rules)
    exempt = sorted(set(exempt_namespaces) | set(settings.exempt_namespaces))
    refuse_unknown(rules, settings)
    shared = fragments() if library is None else library
    objects: list[dict[str, Any]] = []
    for rule in rules:
        state = rule_state(rule, settings)
        if rule.cel is None or state is PolicyState.OFF:
            continue
        parameters = rule.parameter_values(settings.parameters.get(rule.id, {}))
        exemptions = _exemptions(rule, settings, today)
        objects.append(_policy(rule, rule.cel, parameters, exempt, shared, exemptions))
        objects.extend(_binding(rule, state, part) for part in _slices(rule, exempt))
    return objects


def refuse_unknown(rules: Sequence[Rule], settings: PolicySettings) -> None:
    """Refuse settings that name what the catalogue does not have.

    Raises
    ------
    TrainyardError
        A rule or parameter does not exist, or a rule cannot be set so.
    """
    by_id = {rule.id: rule for rule in rules}
    problems = []
    for section, names in (("states", settings.states), ("parameters", settings.parameters)):
        for rule_id in sorted(set(names) - set(by_id)):
            problems.append(
                Problem(
                    f"policies.{section}.{rule_id}", "there is no such rule", f"known rules: {', '.join(sorted(by_id))}"
                )
            )
    exempted = Counter(exemption.rule for exemption in settings.exemptions)
    for index, exemption in enumerate(settings.exemptions):
        path, rule = f"policies.exemptions[{index}].rule", by_id.get(exemption.rule)
        if rule is None:
            problems.append(
                Problem(path, f"there is no rule {exemption.rule}", f"known rules: {', '.join(sorted(by_id))}")
            )
        elif rule.gate is Gate.CRD:
            problems.append(Problem(path, "the CRD itself carries this rule; nothing is exempt", "remove the entry"))
        elif exempted[exemption.rule] > _MOST_EXEMPTIONS:
            message = f"{exempted[exemption.rule]} exemptions from one rule; the API server takes {_MOST_EXEMPTIONS}"
            problems.append(Problem(path, message, "exempt a whole kind or namespace"))
    for rule_id, state in settings.states.items():
        rule = by_id.get(rule_id)
        if rule and rule.gate is Gate.CRD and state is not rule.state:
            problems.append(
                Problem(
                    f"policies.states.{rule_id}",
                    "the CRD itself carries this rule; its state cannot be set",
                    "remove the entry",
                )
            )
    for rule_id, values in settings.parameters.items():
        if rule_id in by_id:
            try:
                by_id[rule_id].parameter_values(values)
            except ValueError as error:
                problems.append(Problem(f"policies.parameters.{rule_id}", str(error), "see docs/rules.md"))
    if problems:
        raise TrainyardError("The policy settings are wrong", problems=problems)


def _policy(
    rule: Rule,
    cel: Cel,
    parameters: Mapping[str, ParameterValue],
    exempt: Sequence[str],
    shared: Mapping[str, Fragment],
    exemptions: Sequence[dict[str, str]],
) -> dict[str, Any]:
    validations = [_validation(rule, validation) for validation in cel.validations]
    spec: dict[str, Any] = {
        "failurePolicy": "Fail",
        "matchConstraints": {
            "matchPolicy": "Equivalent",
            "resourceRules": [_resource_rule(match, match.operations) for match in rule.matches],
        },
        "variables": _variables(rule, cel, {**parameters, "exemptNamespaces": list(exempt)}, shared, validations),
        "matchConditions": [*_conditions(rule, cel), *exemptions],
        "validations": validations,
    }
    if rule.source is not ParameterSource.NONE:
        spec["paramKind"] = {"apiVersion": PLATFORM_API_VERSION, "kind": rule.source.value}
    return {
        "apiVersion": API_VERSION,
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {
            "name": policy_name(rule.id),
            "labels": {"trainyard.dev/rule": rule.id},
            "annotations": {"trainyard.dev/title": rule.title, "trainyard.dev/since": rule.since},
        },
        "spec": {key: value for key, value in spec.items() if value},
    }


def _binding(rule: Rule, state: PolicyState, part: _Slice) -> dict[str, Any]:
    resources: dict[str, Any] = {"matchPolicy": "Equivalent"}
    if part.matches is not None and part.operations is not None:
        resources["resourceRules"] = [_resource_rule(match, part.operations) for match in part.matches]
    if part.namespaces:
        resources["namespaceSelector"] = {"matchExpressions": list(part.namespaces)}
    spec: dict[str, Any] = {
        "policyName": policy_name(rule.id),
        "validationActions": _ACTIONS[state],
        "matchResources": resources,
    }
    if rule.source is not ParameterSource.NONE:
        denies = part.missing_denies and state is PolicyState.DENY
        spec["paramRef"] = {
            "name": _PARAMETER_NAMES[rule.source],
            "parameterNotFoundAction": "Deny" if denies else "Allow",
        }
    return {
        "apiVersion": API_VERSION,
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": policy_name(rule.id, part.suffix), "labels": {"trainyard.dev/rule": rule.id}},
        "spec": spec,
    }


def _slices(rule: Rule, exempt: Sequence[str]) -> list[_Slice]:
    """Cut a rule into bindings, because the API server looks for the parameter before any condition is asked.

    A missing parameter therefore denies whatever a binding matches. It denies what is created, but never an update:
    else the finalizers of a namespace whose TenantPolicy was deleted first could not be removed. It never stops the
    platform's own namespaces. And it stops Pods and Jobs only where the Namespace is labelled as a tenant's, because
    other namespaces run Pods that are none of our business; one of them that has a TenantPolicy all the same is judged.
    """
    bound = {"key": NAMESPACE_LABEL, "operator": "NotIn", "values": list(exempt)}
    tenant = {"key": TENANT_LABEL, "operator": "Exists"}
    other = {"key": TENANT_LABEL, "operator": "DoesNotExist"}
    if rule.source is ParameterSource.NONE:
        selected = {Reach.EVERYWHERE: (), Reach.TENANTS: (bound,), Reach.LABELLED: (bound, tenant)}
        return [_Slice("", None, None, selected[rule.reach], missing_denies=False)]
    created = tuple(match for match in rule.matches if "CREATE" in match.operations)
    updated = tuple(match for match in rule.matches if "UPDATE" in match.operations)
    slices = []
    if rule.source is ParameterSource.TENANT_POLICY:
        own, foreign = tuple(m for m in created if not m.built_in), tuple(m for m in created if m.built_in)
        slices += [
            _Slice("", own, ("CREATE",), (bound,), True),
            _Slice("pods", foreign, ("CREATE",), (bound, tenant), True),
            _Slice("others", foreign, ("CREATE",), (bound, other), False),
        ]
    else:
        slices.append(_Slice("", created, ("CREATE",), (bound,), True))
    if rule.reach is Reach.EVERYWHERE:
        namespaced = tuple(match for match in created if match.scope == "Namespaced")
        slices.append(_Slice("platform", namespaced, ("CREATE",), ({**bound, "operator": "In"},), False))
    slices.append(_Slice("update", updated, ("UPDATE",), (bound,) if rule.reach is Reach.TENANTS else (), False))
    return [part for part in slices if part.matches]


def _resource_rule(match: Match, operations: Iterable[str]) -> dict[str, Any]:
    return {
        "apiGroups": [match.group],
        "apiVersions": [match.version],
        "operations": list(operations),
        "resources": [match.resource],
        "scope": match.scope,
    }


def _conditions(rule: Rule, cel: Cel) -> list[dict[str, str]]:
    operations = {operation for match in rule.matches for operation in match.operations}
    conditions = []
    if operations & {"CREATE", "UPDATE"}:
        conditions.append(("not-being-deleted", "object == null || !has(object.metadata.deletionTimestamp)"))
    if "UPDATE" in operations and not cel.unchanged:
        conditions.append(("changed", f'request.operation != "UPDATE" || {_changed(PARTS)}'))
    for match in rule.matches:
        if "UPDATE" in match.operations and match.touching != PARTS:
            other = f'request.kind.group != "{match.group}" || request.kind.kind != "{match.kind}"'
            touched = f'request.operation != "UPDATE" || {other} || {_changed(match.touching)}'
            conditions.append((f"touched-{match.kind.lower()}", touched))
    if "UPDATE" in operations and not cel.stopping:
        conditions.append(
            ("not-stopping", 'request.operation != "UPDATE" || dyn(object).?spec.?suspend.orValue(false) != true')
        )
    conditions.extend((condition.name, condition.expression) for condition in cel.when)
    return [{"name": name, "expression": _one_line(expression)} for name, expression in conditions]


def _changed(parts: Iterable[Part]) -> str:
    fields = {"spec": "spec", "labels": "metadata.?labels", "annotations": "metadata.?annotations"}
    return " || ".join(f"dyn(object).?{fields[part]} != dyn(oldObject).?{fields[part]}" for part in parts)


def _exemptions(rule: Rule, settings: PolicySettings, today: datetime.date | None) -> list[dict[str, str]]:
    """Return a condition for each exemption that holds: the policy does not judge what it lets pass."""
    holding = [
        exemption
        for exemption in settings.exemptions
        if exemption.rule == rule.id and today is not None and today < exemption.expires
    ]
    conditions = []
    for number, exemption in enumerate(holding):
        terms = [f'request.?namespace.orValue("") == {cel_literal(exemption.namespace)}']
        if exemption.kind is not None:
            terms.append(f"request.kind.kind == {cel_literal(exemption.kind)}")
        if exemption.name is not None:
            terms.append(f'request.?name.orValue("") == {cel_literal(exemption.name)}')
        conditions.append({"name": f"exemption-{number}", "expression": f"!({' && '.join(terms)})"})
    return conditions


def _variables(
    rule: Rule,
    cel: Cel,
    literals: Mapping[str, ParameterValue],
    shared: Mapping[str, Fragment],
    validations: Sequence[Mapping[str, str]],
) -> list[dict[str, str]]:
    available = {name: cel_literal(value) for name, value in literals.items()}
    for name in cel.use:
        if name not in shared:
            raise TrainyardError(
                f"Rule {rule.id} uses the CEL fragment {name!r}, which does not exist",
                fix=f"use one of {', '.join(shared)}",
            )
        available.update({variable.name: variable.expression for variable in shared[name].variables})
    available.update({variable.name: variable.expression for variable in cel.variables})
    wanted: set[str] = set()
    pending = [text for validation in validations for text in validation.values()]
    while pending:
        for name in set(_REFERENCE.findall(pending.pop())) - wanted:
            if name not in available:
                raise TrainyardError(
                    f"Rule {rule.id} uses the CEL variable {name!r}, which does not exist",
                    fix="define it under cel.variables",
                )
            wanted.add(name)
            pending.append(available[name])
    return [{"name": name, "expression": _one_line(text)} for name, text in available.items() if name in wanted]


def _validation(rule: Rule, validation: Validation) -> dict[str, str]:
    """Return one validation; gates are compared by the start of its message, the rule's id and the field path."""
    fix = f"; {rule.fix}"
    result = {
        "expression": _one_line(validation.expression),
        "message": f"{rule.id} {validation.path or 'object'}: {rule.title}{fix}",
    }
    if validation.path is not None and not validation.values:
        return {**result, "message": f"{rule.id} {validation.path}: {validation.message}{fix}"}
    path = (
        cel_literal(f"{rule.id} {validation.path}: ")
        if validation.paths is None
        else f'{cel_literal(f"{rule.id} ")} + {_in_a_message(validation.paths)} + ": "'
    )
    parts = [path]
    for index, part in enumerate(_PLACEHOLDER.split(validation.message)):
        if index % 2:
            parts.append(_in_a_message(validation.values[part]))
        elif part:
            parts.append(cel_literal(part))
    return {**result, "messageExpression": " + ".join([*parts, cel_literal(fix)])}


def _in_a_message(expression: str) -> str:
    """Return an expression whose text is of one line: of a longer one the API server says the rule's title instead."""
    return f'({_one_line(expression)}).replace("\\n", " ")'


def _one_line(text: str) -> str:
    return " ".join(text.split())
