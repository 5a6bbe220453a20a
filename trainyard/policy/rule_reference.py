"""Generate the reference of admission rules from the rule folders."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from trainyard.policy.rules.admission_rule import AdmissionRule, EnforcementPoint, ParameterSource, Reach
from trainyard.policy.rules.parameters import cel_literal
from trainyard.policy.testing.cases import Case, CaseDecision

_HEAD = """\
# Rules

Generated from the rule folders by `trainyard policy docs`; do not edit.

A violation is reported as `ID path: what is wrong; what to do`. The state of a rule (`deny`, `warn`, `audit`, `off`)
and its parameters can be set for a stack:

```yaml
trainyard:policies:
  states: {LBL-002: warn}
  parameters: {LBL-002: {frameworks: [torch, jax, our-framework]}}
```

Rules that read a TenantPolicy or the Platform deny creations while that object is missing (`ID parameters: TenantPolicy
is missing`). They then allow updates, and all writes in the platform's own namespaces: existing objects
can always be changed, drained and deleted. Updates that change neither spec nor labels nor annotations, and updates
that suspend a job, are not evaluated unless the rule requires it; objects that are being deleted never are.

The API server reads both objects as annotations `policy.trainyard.dev/...` of Namespaces: a TenantPolicy on its own
Namespace, the Platform on `kube-system`. The controller's leader writes them within a second of a change and reverts
changes by others. An API server has read Namespaces from its first request on, but the kinds of
CustomResourceDefinitions only half a minute after its start.
"""
_REACH = {
    Reach.EVERYWHERE: "all namespaces",
    Reach.TENANTS: "all namespaces except the platform's own",
    Reach.LABELLED: "namespaces of tenants (label `trainyard.dev/tenant`), and cluster-scoped objects",
}
_SOURCE = {
    ParameterSource.NONE: "",
    ParameterSource.TENANT_POLICY: "the TenantPolicy `tenant` of the namespace",
    ParameterSource.PLATFORM: "the Platform `platform`",
}
_GATE = {
    EnforcementPoint.CRD: "the CustomResourceDefinition itself; the state cannot be changed",
    EnforcementPoint.ADMISSION: "ValidatingAdmissionPolicy",
    EnforcementPoint.OPA: "the webhook and the reconcile loop, by the policy server",
}


_NAMES = {
    EnforcementPoint.CRD: "the CustomResourceDefinition",
    EnforcementPoint.ADMISSION: "ValidatingAdmissionPolicies",
    EnforcementPoint.OPA: "the policy server",
}


def reference(rules: Sequence[AdmissionRule], cases: Iterable[Case]) -> str:
    """Return the page as Markdown."""
    by_rule: dict[str, list[Case]] = {}
    for case in cases:
        by_rule.setdefault(case.rule.id, []).append(case)
    rows = [
        f"| [{rule.id}](#{rule.id.lower()}) | {rule.title} | {rule.family} | {rule.state.value} | {kinds} |"
        for rule in rules
        if (kinds := ", ".join(_kinds(rule)))
    ]
    table = ["| id | rule | family | state | applies to |", "|---|---|---|---|---|", *rows]
    sections = [line for rule in rules for line in _section(rule, by_rule.get(rule.id, []))]
    return "\n".join([_HEAD, *table, "", *sections]).rstrip() + "\n"


def _kinds(rule: AdmissionRule) -> list[str]:
    return [f"Volcano {match.kind}" if match.group == "batch.volcano.sh" else match.kind for match in rule.matches]


def _section(rule: AdmissionRule, cases: Sequence[Case]) -> Iterator[str]:
    yield f"## {rule.id}"
    yield ""
    yield f"**{rule.title}.** {' '.join(rule.description.split())}"
    yield ""
    facts = {
        "State": f"{rule.state.value} ({rule.severity.value}), since {rule.since}",
        "Enforced by": _GATE[rule.gate],
        "Namespaces": _REACH[rule.reach],
        "Applies to": "; ".join(
            f"{kind} on {', '.join(match.operations).lower()}"
            for kind, match in zip(_kinds(rule), rule.matches, strict=True)
        ),
        "Reads": _SOURCE[rule.source],
        "Fix": rule.fix,
    }
    yield from (f"- {name}: {text}" for name, text in facts.items() if text)
    for name, schema in rule.parameters.items():
        default = list(schema.default) if isinstance(schema.default, tuple) else schema.default
        yield f"- Parameter `{name}` ({schema.type}): {schema.description}. Default `{cel_literal(default)}`"
    yield from (
        f"- Not visible to {_NAMES[entry.gate]}: {entry.what}. Covered: {entry.covered}" for entry in rule.unseen
    )
    yield from (f"- See {link}" for link in rule.references)
    for verdict, heading in (
        (CaseDecision.DENY, "Denied"),
        (CaseDecision.WARN, "Warned"),
        (CaseDecision.ALLOW, "Allowed"),
    ):
        chosen = [case for case in cases if case.verdict is verdict]
        if chosen:
            yield ""
            yield f"{heading}:"
            yield ""
            yield from (f"- {case.content.about}" for case in chosen)
    yield ""
