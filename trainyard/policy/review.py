"""Review of requests: the input and output of an engine, for every gate."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from trainyard.checks.finding import Finding, Severity
from trainyard.errors import TrainyardError
from trainyard.policy.prefilter import Prefilter
from trainyard.settings.platform import ExemptionSettings, PolicySettings, PolicyState

_CONTROLLER = "kubeflow-trainer-controller-manager"
"""Name of the controller's service account."""

PLAIN_KINDS: Final = ("ConfigMap", "Secret")
"""Kinds rendered from a TrainJob without pods or a queue: rules only restrict who writes them, here the platform."""

Operation = Literal["CREATE", "UPDATE", "DELETE"]


class DecisionUnavailableError(TrainyardError):
    """There is no decision: the request must be rejected."""

    def __init__(self, reason: str, *, fix: str = "check that the policy server is running, then retry") -> None:
        super().__init__(f"No policy decision: {reason}", fix=fix)


class DecisionTimeoutError(DecisionUnavailableError):
    """The policy server did not decide in time."""

    def __init__(self) -> None:
        super().__init__("the policy server timed out")


@dataclass(frozen=True)
class Review:
    """One request.

    Parameters
    ----------
    operation
        Operation of the request.
    object, old_object
        The object after the request and before it; None if it does not exist.
    namespace
        Namespace of the object; empty for a cluster-scoped one.
    namespace_labels
        Labels of that namespace.
    user, groups, administrator
        User of the request; an administrator may change admission policies.
    platform, tenant_policy
        ``spec`` of the Platform and of the namespace's TenantPolicy; None if it does not exist.
    unknown
        Field paths with unknown values.
    runtime
        The complete runtime that a TrainJob references; None for other kinds, and if it does not exist.
    subresource
        Subresource that the request writes, such as ``ephemeralcontainers``; empty for the object itself.
    options
        Options of the request, such as ``gracePeriodSeconds`` of a deletion.
    """

    operation: Operation
    object: Mapping[str, Any] | None
    old_object: Mapping[str, Any] | None = None
    namespace: str = ""
    namespace_labels: Mapping[str, str] = field(default_factory=dict)
    user: str = ""
    groups: Sequence[str] = ()
    administrator: bool = False
    platform: Mapping[str, Any] | None = None
    tenant_policy: Mapping[str, Any] | None = None
    unknown: Sequence[str] = ()
    runtime: Mapping[str, Any] | None = None
    subresource: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class AdmissionContext:
    """Context shared by all requests of a gate.

    Parameters
    ----------
    settings
        States, parameters and exemptions of the stack.
    exempt_namespaces
        Namespaces of the platform.
    only
        Ids of the rules to evaluate; None: all.
    now
        The current time, for the expiry of exemptions.
    prefilter
        Prefilter of rules; None: evaluate all.
    """

    settings: PolicySettings
    exempt_namespaces: Iterable[str]
    now: datetime.datetime
    only: Sequence[str] | None = None
    prefilter: Prefilter | None = None


@dataclass(frozen=True)
class Violation(Finding):
    """A finding of an engine, with its effect.

    Parameters
    ----------
    rule
        Id of the rule; None if the request could not be evaluated.
    state
        Effect of the violation here: deny, warn or audit.
    """

    state: PolicyState = field(kw_only=True)


@dataclass(frozen=True)
class Decision:
    """Decision about one request.

    Parameters
    ----------
    allowed
        Whether no rule in state deny is violated.
    violations, warnings, audits
        Findings by effect.
    undecided
        Findings that depend on unknown values.
    exempted
        Findings suppressed by an exemption.
    """

    allowed: bool
    violations: tuple[Violation, ...] = ()
    warnings: tuple[Violation, ...] = ()
    audits: tuple[Violation, ...] = ()
    undecided: tuple[Violation, ...] = ()
    exempted: tuple[Violation, ...] = ()

    @property
    def findings(self) -> tuple[Violation, ...]:
        """All findings that are not exempted, most severe first."""
        return (*self.violations, *self.warnings, *self.audits)


class FindingFilter:
    """Deduplicates the findings of an object and of the objects rendered from it.

    Rendered objects inherit the violations of the object itself; and a violation with the same rule and message in
    several of them is reported for the first one only.

    Parameters
    ----------
    own
        Findings of the object itself.
    """

    def __init__(self, own: Iterable[Violation]) -> None:
        self._rules = {finding.rule for finding in own}
        self._reported: set[tuple[str | None, str]] = set()

    def unreported(self, findings: Iterable[Violation]) -> list[Violation]:
        """Return the findings of a rendered object that are not reported yet."""
        found = [
            finding
            for finding in findings
            if finding.rule not in self._rules and (finding.rule, finding.message) not in self._reported
        ]
        self._reported |= {(finding.rule, finding.message) for finding in found}
        return found


def platform_controller(namespace: str) -> dict[str, Any]:
    """Return the user that creates rendered objects, as fields of a :class:`Review`.

    Parameters
    ----------
    namespace
        Namespace of the controller.
    """
    return {
        "user": f"system:serviceaccount:{namespace}:{_CONTROLLER}",
        "groups": ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated"),
    }


def document_of(review: Review, context: AdmissionContext) -> dict[str, Any]:
    """Return the input of the policy server for one request."""
    return {**_request(review, context.prefilter), **_shared(context)}


def documents_of(reviews: Iterable[Review], context: AdmissionContext) -> dict[str, Any]:
    """Return the input of the policy server for several requests at once.

    Identical parameter objects are sent once: a request references its own by an index into ``params``.
    """
    requests: list[dict[str, Any]] = []
    params: list[dict[str, Any]] = []
    places: dict[tuple[int, int], int] = {}
    for review in reviews:
        request = _request(review, context.prefilter)
        place = places.setdefault((id(review.platform), id(review.tenant_policy)), len(params))
        if place == len(params):
            params.append(request["params"])
        requests.append({**request, "params": place})
    return {"requests": requests, "params": params, **_shared(context)}


def decision_of(answer: Mapping[str, Any]) -> Decision:
    """Parse a decision of the policy server."""
    return Decision(
        bool(answer["allowed"]),
        *(
            tuple(sorted((_violation(entry) for entry in answer[name]), key=_order))
            for name in ("violations", "warnings", "audits", "undecided", "exempted")
        ),
    )


def _request(review: Review, prefilter: Prefilter | None) -> dict[str, Any]:
    request = {
        "operation": review.operation,
        "subResource": review.subresource,
        "namespace": review.namespace,
        "namespaceLabels": dict(review.namespace_labels),
        "object": review.object,
        "oldObject": review.old_object,
        "runtime": review.runtime,
        "options": dict(review.options),
        "user": {"name": review.user, "groups": list(review.groups), "administrator": review.administrator},
    }
    prefiltered = prefilter.excluded(request, review.platform) if prefilter else {}
    if prefilter and prefilter.runtime_rules <= prefiltered.keys():
        request["runtime"] = None
    return {
        "request": request,
        "params": {"platform": review.platform, "tenantPolicy": review.tenant_policy},
        "unknown": list(review.unknown),
        "prefiltered": prefiltered,
    }


def _shared(context: AdmissionContext) -> dict[str, Any]:
    settings = context.settings
    return {
        "parameters": {rule: dict(values) for rule, values in settings.parameters.items()},
        "states": {rule: state.value for rule, state in settings.states.items()},
        "exemptNamespaces": sorted({*context.exempt_namespaces, *settings.exempt_namespaces}),
        "exemptions": [_exemption(exemption) for exemption in settings.exemptions],
        "only": None if context.only is None else list(context.only),
        "now": context.now.astimezone(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }


def _exemption(exemption: ExemptionSettings) -> dict[str, str]:
    """Return an exemption as the policy server's input; a date means its start (UTC)."""
    names = ("rule", "namespace", "kind", "name")
    fields = {name: value for name in names if (value := getattr(exemption, name)) is not None}
    if exemption.api_group is not None:
        fields["group"] = exemption.api_group
    return {**fields, "expires": f"{exemption.expires.isoformat()}T00:00:00Z"}


def _violation(entry: Mapping[str, Any]) -> Violation:
    return Violation(
        entry["path"],
        entry["message"],
        entry["fix"],
        entry["rule"],
        severity=Severity(entry["severity"]),
        state=PolicyState(entry["state"]),
    )


def _order(finding: Violation) -> tuple[str, str, str]:
    return finding.rule or "", finding.path, finding.message
