"""Review of requests: what every gate asks an engine."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from trainyard.checks.finding import Finding, Severity
from trainyard.errors import TrainyardError
from trainyard.policy.prefilter import Mentions
from trainyard.settings.platform import ExemptionSettings, PolicySettings, PolicyState

__all__ = [
    "PLAIN_KINDS",
    "Decision",
    "DecisionUnavailableError",
    "Operation",
    "Review",
    "Said",
    "Surroundings",
    "Violation",
    "decision_of",
    "document_of",
    "documents_of",
    "platform_controller",
]

_CONTROLLER = "kubeflow-trainer-controller-manager"
"""Name of the controller's service account."""

PLAIN_KINDS: Final = ("ConfigMap", "Secret")
"""Kinds made of a TrainJob that hold no pods and no place in a queue: only who writes them matters, and that is us."""

Operation = Literal["CREATE", "UPDATE", "DELETE"]


class DecisionUnavailableError(TrainyardError):
    """There is no decision: the request must be refused."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"No policy decision: {reason}", fix="see whether the policy server runs, then try again")


@dataclass(frozen=True)
class Review:
    """One request.

    Parameters
    ----------
    operation
        What is done.
    object, old_object
        The object the request leaves behind, and the one before; None where there is none.
    namespace
        Namespace of the object; empty for a cluster-scoped one.
    namespace_labels
        Labels of that namespace.
    user, groups, administrator
        Who asks; an administrator may change admission policies.
    platform, tenant_policy
        ``spec`` of the Platform and of the namespace's TenantPolicy; None where there is none.
    unknown
        Field paths whose values are not known yet.
    runtime
        The runtime a TrainJob names, whole; None for other kinds and where there is no such runtime.
    subresource
        The part of the object that the request writes, such as ``ephemeralcontainers``; empty for the object itself.
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


@dataclass(frozen=True)
class Surroundings:
    """What is the same for all requests of a gate.

    Parameters
    ----------
    settings
        States, parameters and exemptions of the stack.
    exempt_namespaces
        Namespaces of the platform.
    only
        Ids of the rules that judge; all where it is None.
    now
        The current time, by which exemptions end.
    mentions
        What rules speak of, by which those that find nothing are not asked; all are where it is None.
    """

    settings: PolicySettings
    exempt_namespaces: Iterable[str]
    now: datetime.datetime
    only: Sequence[str] | None = None
    mentions: Mentions | None = None


@dataclass(frozen=True)
class Violation(Finding):
    """A finding of an engine, with what it causes.

    Parameters
    ----------
    rule
        Id of the rule; None where the request could not be evaluated.
    state
        Effect of the violation here: deny, warn or audit.
    """

    state: PolicyState = field(kw_only=True)


@dataclass(frozen=True)
class Decision:
    """The answer about one request.

    Parameters
    ----------
    allowed
        Whether no rule in state deny is violated.
    violations, warnings, audits
        Findings by what they cause.
    undecided
        Findings about values that are not known yet.
    exempted
        Findings that an exemption lets pass.
    """

    allowed: bool
    violations: tuple[Violation, ...] = ()
    warnings: tuple[Violation, ...] = ()
    audits: tuple[Violation, ...] = ()
    undecided: tuple[Violation, ...] = ()
    exempted: tuple[Violation, ...] = ()

    @property
    def findings(self) -> tuple[Violation, ...]:
        """Everything that is wrong and not exempted, worst first."""
        return (*self.violations, *self.warnings, *self.audits)


class Said:
    """What has been said about an object, so that what is made of it repeats nothing.

    What the object itself breaks, every object made of it breaks too; and what is wrong with several of them for the
    same reason is said of the first.

    Parameters
    ----------
    own
        The findings about the object itself.
    """

    def __init__(self, own: Iterable[Violation]) -> None:
        self._rules = {finding.rule for finding in own}
        self._said: set[tuple[str | None, str]] = set()

    def news(self, findings: Iterable[Violation]) -> list[Violation]:
        """Return what only shows in one made object: of its findings those that nothing before says."""
        found = [
            finding
            for finding in findings
            if finding.rule not in self._rules and (finding.rule, finding.message) not in self._said
        ]
        self._said |= {(finding.rule, finding.message) for finding in found}
        return found


def platform_controller(namespace: str) -> dict[str, Any]:
    """Return who creates what a TrainJob becomes, as fields of a :class:`Review`.

    Parameters
    ----------
    namespace
        Namespace of the controller.
    """
    return {
        "user": f"system:serviceaccount:{namespace}:{_CONTROLLER}",
        "groups": ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated"),
    }


def document_of(review: Review, surroundings: Surroundings) -> dict[str, Any]:
    """Return the input of the policy server for one request."""
    return {**_request(review, surroundings.mentions), **_shared(surroundings)}


def documents_of(reviews: Iterable[Review], surroundings: Surroundings) -> dict[str, Any]:
    """Return the input of the policy server for several requests at once.

    Parameters that are the same objects are said once: a request names theirs by its place in ``params``.
    """
    requests: list[dict[str, Any]] = []
    params: list[dict[str, Any]] = []
    places: dict[tuple[int, int], int] = {}
    for review in reviews:
        request = _request(review, surroundings.mentions)
        place = places.setdefault((id(review.platform), id(review.tenant_policy)), len(params))
        if place == len(params):
            params.append(request["params"])
        requests.append({**request, "params": place})
    return {"requests": requests, "params": params, **_shared(surroundings)}


def decision_of(answer: Mapping[str, Any]) -> Decision:
    """Read the answer of the policy server."""
    return Decision(
        bool(answer["allowed"]),
        *(
            tuple(sorted((_violation(entry) for entry in answer[name]), key=_order))
            for name in ("violations", "warnings", "audits", "undecided", "exempted")
        ),
    )


def _request(review: Review, mentions: Mentions | None) -> dict[str, Any]:
    request = {
        "operation": review.operation,
        "subResource": review.subresource,
        "namespace": review.namespace,
        "namespaceLabels": dict(review.namespace_labels),
        "object": review.object,
        "oldObject": review.old_object,
        "runtime": review.runtime,
        "user": {"name": review.user, "groups": list(review.groups), "administrator": review.administrator},
    }
    mute = mentions.mute(request, review.platform) if mentions else {}
    if mentions and mentions.seeing_runtime <= mute.keys():
        request["runtime"] = None
    return {
        "request": request,
        "params": {"platform": review.platform, "tenantPolicy": review.tenant_policy},
        "unknown": list(review.unknown),
        "mute": mute,
    }


def _shared(surroundings: Surroundings) -> dict[str, Any]:
    settings = surroundings.settings
    return {
        "parameters": {rule: dict(values) for rule, values in settings.parameters.items()},
        "states": {rule: state.value for rule, state in settings.states.items()},
        "exemptNamespaces": sorted({*surroundings.exempt_namespaces, *settings.exempt_namespaces}),
        "exemptions": [_exemption(exemption) for exemption in settings.exemptions],
        "only": None if surroundings.only is None else list(surroundings.only),
        "now": surroundings.now.astimezone(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }


def _exemption(exemption: ExemptionSettings) -> dict[str, str]:
    """Return what the policy server needs; a day stands for its first moment."""
    names = ("rule", "namespace", "kind", "name")
    fields = {name: value for name in names if (value := getattr(exemption, name)) is not None}
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
