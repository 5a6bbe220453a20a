"""Rules as ValidatingAdmissionPolicies: enforced by the API server itself, without another process.

No policy has a custom resource as its parameter: TenantPolicies and the Platform are read from annotations of
Namespaces (`trainyard.policy.engines.vap.facts`), which an API server serves from its first request on.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from trainyard.errors import TrainyardError
from trainyard.policy.engines.vap.exemptions import exemption_conditions
from trainyard.policy.engines.vap.facts import PLATFORM_FACTS_NAMESPACE
from trainyard.policy.engines.vap.listed_templates import fill_listed
from trainyard.policy.engines.vap.settings_checks import reject_unknown
from trainyard.policy.rules.admission_rule import (
    MISSING_PARAMETER_FIXES,
    PARTS,
    POD_CONTROLLERS,
    AdmissionRule,
    Cel,
    Fragment,
    ParameterSource,
    Part,
    Reach,
    Validation,
)
from trainyard.policy.rules.parameters import ParameterValue, cel_literal
from trainyard.policy.rules.rule_catalog import fragments
from trainyard.settings.platform import PolicySettings, PolicyState

API_VERSION: Final = "admissionregistration.k8s.io/v1"
NAMESPACE_LABEL: Final = "kubernetes.io/metadata.name"
TENANT_LABEL: Final = "trainyard.dev/tenant"
"""Label of tenant Namespaces; in these, a missing TenantPolicy rejects Pods and Jobs too."""

_DOMAIN = "trainyard.dev"
_ACTIONS = {
    PolicyState.DENY: ["Deny", "Audit"],
    PolicyState.WARN: ["Warn", "Audit"],
    PolicyState.AUDIT: ["Audit"],
}
_FACTS = {ParameterSource.TENANT_POLICY: "tenant-policy", ParameterSource.PLATFORM: "platform"}
"""CEL fragment with the variables of each parameter source."""
_OF_THE_CLUSTER: Final = (
    'request.userInfo.username == "system:kube-controller-manager" '
    '|| "system:serviceaccounts:kube-system" in request.userInfo.?groups.orValue([])'
)
_RELEASED: Final = """
    has(object.metadata.deletionTimestamp)
    && object.metadata.?labels == oldObject.metadata.?labels
    && object.metadata.?annotations == oldObject.metadata.?annotations
    && (object.metadata.?ownerReferences == oldObject.metadata.?ownerReferences
    || oldObject.metadata.?ownerReferences.orValue([]).size() <= 64
    && object.metadata.?ownerReferences.orValue([]).size() <= 64
    && object.metadata.?ownerReferences.orValue([]).all(owner, oldObject.metadata.?ownerReferences.orValue([])
    .exists(former, former.uid == owner.uid && former.kind == owner.kind
    && former.?controller.orValue(false) == owner.?controller.orValue(false))))
    && dyn(object).transformMap(field, value, field != "metadata", value)
    == dyn(oldObject).transformMap(field, value, field != "metadata", value)
"""
"""Whether an update of an object that is being deleted only removes finalizers, and owner references if there are few.

Many are compared as a whole: each with each would exceed the limit of costs, and no finalizer could be removed.
"""
_STOPPABLE: Final = ["batch", "jobset.x-k8s.io", "trainer.kubeflow.org"]
"""Groups whose objects stop with ``spec.suspend``."""
_REFERENCE = re.compile(r"\bvariables\.([A-Za-z]+)")
_PLACEHOLDER = re.compile(r"\{([a-z][A-Za-z]*)\}")


def policy_name(rule_id: str) -> str:
    """Return the name of a rule's policy and of its binding."""
    return f"{rule_id.lower()}.{_DOMAIN}"


def rule_state(rule: AdmissionRule, settings: PolicySettings) -> PolicyState:
    """Return the effect of a violation of the rule with these settings."""
    return settings.states.get(rule.id, rule.state)


def admission_objects(
    rules: Iterable[AdmissionRule],
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
        The catalog.
    settings
        States, parameters and exemptions of a stack.
    exempt_namespaces
        Namespaces of the platform: tenant rules do not apply to them, and their service accounts may write trusted
        objects.
    library
        Shared CEL fragments by name; the shipped ones if unset.
    today
        The current day (UTC): exemptions that have expired are left out, and the others end by the clock of the API
        server; if unset, no exemption applies.

    Raises
    ------
    TrainyardError
        The settings name an unknown rule or parameter, or set the state of a rule that only CRDs enforce.
    """
    rules = list(rules)
    exempt = sorted(set(exempt_namespaces) | set(settings.exempt_namespaces))
    reject_unknown(rules, settings)
    shared = fragments() if library is None else library
    objects: list[dict[str, Any]] = []
    for rule in rules:
        state = rule_state(rule, settings)
        if rule.cel is None or state is PolicyState.OFF:
            continue
        parameters = rule.parameter_values(settings.parameters.get(rule.id, {}))
        exemptions = exemption_conditions(settings.exemptions, rule.id, today)
        objects.append(_policy(rule, rule.cel, state, parameters, exempt, shared, exemptions))
        objects.append(_binding(rule, state, exempt))
    return objects


def _policy(
    rule: AdmissionRule,
    cel: Cel,
    state: PolicyState,
    parameters: Mapping[str, ParameterValue],
    exempt: Sequence[str],
    shared: Mapping[str, Fragment],
    exemptions: Sequence[dict[str, str]],
) -> dict[str, Any]:
    validations = [_validation(rule, validation) for validation in cel.validations]
    literals: dict[str, ParameterValue] = {**parameters, "exemptNamespaces": list(exempt)}
    conditions = [*_requests(rule, cel), *_when(cel), *exemptions]
    derived: dict[str, str] = {}
    if rule.source is not ParameterSource.NONE:
        # A missing parameter object is reported regardless of conditions and exemptions, and conditions cannot read the
        # namespace: therefore, both are part of the validations.
        derived["applies"] = " && ".join(["variables.factsKnown", *(f"({each['expression']})" for each in exemptions)])
        derived["applies"] += "".join(f" && ({each['expression']})" for each in _when(cel))
        conditions = _requests(rule, cel)
        validations = [_if_applicable(validation) for validation in validations]
        if state is PolicyState.DENY:
            validations.insert(0, _missing(rule))
    spec: dict[str, Any] = {
        "failurePolicy": "Fail",
        "matchConstraints": {
            "matchPolicy": "Equivalent",
            "resourceRules": [
                {
                    "apiGroups": [match.served[0]],
                    "apiVersions": [match.served[1]],
                    "operations": list(match.operations),
                    "resources": [match.resource],
                    "scope": match.scope,
                }
                for match in rule.matches
            ],
        },
        "variables": _variables(rule, cel, literals, derived, shared, validations),
        "matchConditions": conditions,
        "validations": validations,
    }
    if rule.source is ParameterSource.PLATFORM:
        spec["paramKind"] = {"apiVersion": "v1", "kind": "Namespace"}
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


def _binding(rule: AdmissionRule, state: PolicyState, exempt: Sequence[str]) -> dict[str, Any]:
    bound = {"key": NAMESPACE_LABEL, "operator": "NotIn", "values": list(exempt)}
    tenant = {"key": TENANT_LABEL, "operator": "Exists"}
    selected = {Reach.EVERYWHERE: [], Reach.TENANTS: [bound], Reach.LABELLED: [bound, tenant]}[rule.reach]
    resources: dict[str, Any] = {"matchPolicy": "Equivalent"}
    if selected:
        resources["namespaceSelector"] = {"matchExpressions": selected}
    spec: dict[str, Any] = {
        "policyName": policy_name(rule.id),
        "validationActions": _ACTIONS[state],
        "matchResources": resources,
    }
    if rule.source is ParameterSource.PLATFORM:
        missing = "Deny" if state is PolicyState.DENY else "Allow"
        spec["paramRef"] = {"name": PLATFORM_FACTS_NAMESPACE, "parameterNotFoundAction": missing}
    return {
        "apiVersion": API_VERSION,
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": policy_name(rule.id), "labels": {"trainyard.dev/rule": rule.id}},
        "spec": spec,
    }


def _missing(rule: AdmissionRule) -> dict[str, str]:
    """Return the validation that the parameter object of a rule exists.

    It rejects creations, never updates: otherwise, the finalizers of a namespace whose TenantPolicy was deleted first
    could not be removed. It never applies to the platform's own namespaces. Pods and Jobs are rejected only in
    Namespaces labeled as a tenant's, because other namespaces run Pods unrelated to the platform; those of them with a
    TenantPolicy are evaluated.
    """
    excuses = ['request.operation != "CREATE"', 'request.?namespace.orValue("") in variables.exemptNamespaces']
    if rule.source is ParameterSource.TENANT_POLICY and any(match.built_in for match in rule.matches):
        built_in = '!request.kind.group.contains(".")'
        if any(match.built_in and "." in match.group and not match.templates for match in rule.matches):
            built_in = f'({built_in} || request.kind.group.endsWith(".k8s.io"))'
        for match in (each for each in rule.matches if each.templates):
            built_in = f'({built_in} || request.kind.group == "{match.group}" && request.kind.kind == "{match.kind}")'
        excuses.append(f'({built_in} && !("{TENANT_LABEL}" in namespaceObject.metadata.?labels.orValue({{}})))')
    return {
        "expression": " || ".join(["variables.factsKnown", *excuses]),
        "message": f"{rule.id} parameters: {rule.source} is missing; {MISSING_PARAMETER_FIXES[rule.source]}",
    }


def _if_applicable(validation: Mapping[str, str]) -> dict[str, str]:
    """Return a validation that is true, at no cost, if the rule does not apply; messages are always evaluated."""
    result = {**validation, "expression": f"!variables.applies || ({validation['expression']})"}
    if "messageExpression" in validation:
        result["messageExpression"] = f'!variables.applies ? "" : {validation["messageExpression"]}'
    return result


def _requests(rule: AdmissionRule, cel: Cel) -> list[dict[str, str]]:
    """Return the match conditions of requests that the rule evaluates."""
    operations = {operation for match in rule.matches for operation in match.operations}
    conditions = []
    if "UPDATE" in operations and not cel.unchanged:
        conditions.append(("changed", f'request.operation != "UPDATE" || {_changed(PARTS)}'))
    elif "UPDATE" in operations and not cel.deleting:
        conditions.append(("not-released", f'request.operation != "UPDATE" || !({_RELEASED})'))
    for match in rule.matches:
        if "UPDATE" in match.operations and match.touching != PARTS:
            other = f'request.kind.group != "{match.group}" || request.kind.kind != "{match.kind}"'
            touched = f'request.operation != "UPDATE" || {other} || {_changed(match.touching)}'
            conditions.append((f"touched-{match.kind.lower()}", touched))
    if kinds := [match.kind for match in rule.matches if (match.group, match.kind) in POD_CONTROLLERS]:
        # The cluster's controllers continue what a user has written, which was evaluated then.
        continued = f"request.kind.kind in {cel_literal(kinds)} && ({_OF_THE_CLUSTER})"
        evaluated = f'request.kind.group.contains(".") || !({continued})'
        conditions.append(("not-continued", evaluated))
    if "UPDATE" in operations and not cel.stopping:
        suspended = "dyn(object).?spec.?suspend.orValue(false) == true"
        stopping = f"request.kind.group in {cel_literal(_STOPPABLE)} && {suspended}"
        conditions.append(("not-stopping", f'request.operation != "UPDATE" || !({stopping})'))
    return [{"name": name, "expression": _one_line(expression)} for name, expression in conditions]


def _when(cel: Cel) -> list[dict[str, str]]:
    return [{"name": condition.name, "expression": _one_line(condition.expression)} for condition in cel.when]


def _changed(parts: Iterable[Part]) -> str:
    fields = {"spec": "spec", "labels": "metadata.?labels", "annotations": "metadata.?annotations"}
    return " || ".join(f"dyn(object).?{fields[part]} != dyn(oldObject).?{fields[part]}" for part in parts)


def _variables(
    rule: AdmissionRule,
    cel: Cel,
    literals: Mapping[str, ParameterValue],
    derived: Mapping[str, str],
    shared: Mapping[str, Fragment],
    validations: Sequence[Mapping[str, str]],
) -> list[dict[str, str]]:
    available = {name: cel_literal(value) for name, value in literals.items()}
    facts = [_FACTS[rule.source]] if rule.source in _FACTS else []
    for name in (*facts, *cel.use):
        if name not in shared:
            raise TrainyardError(
                f"Rule {rule.id} uses the CEL fragment {name!r}, which does not exist",
                fix=f"use one of {', '.join(shared)}",
            )
        available.update({variable.name: variable.expression for variable in shared[name].variables})
    available = {name: fill_listed(text, rule.matches) for name, text in available.items()}
    if cel.before:
        names = {variable.name for name in cel.use for variable in shared[name].variables}
        available.update(_before({name: available[name] for name in available if name in names}))
    available.update({variable.name: variable.expression for variable in cel.variables})
    available.update(derived)
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


def _before(variables: Mapping[str, str]) -> dict[str, str]:
    """Return variables about an object as the same variables about the object before an update."""

    def name(of: str) -> str:
        return f"before{of[0].upper()}{of[1:]}"

    def renamed(found: re.Match[str]) -> str:
        return f"variables.{name(found[1])}" if found[1] in variables else found[0]

    result = {name(each): _REFERENCE.sub(renamed, text) for each, text in variables.items()}
    return {**result, name("continued"): "false", name("subject"): "dyn(oldObject)"}


def _validation(rule: AdmissionRule, validation: Validation) -> dict[str, str]:
    """Return one validation; its message starts with rule id and field path, by which gates are compared."""
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
    """Return an expression without line breaks; for a multi-line message, the API server returns the rule's title."""
    return f'({_one_line(expression)}).replace("\\n", " ")'


def _one_line(text: str) -> str:
    return " ".join(text.split())
