"""Gate: one decision about a request and all objects rendered from it, for webhook and reconciler.

Rendered objects are reviewed as creations by the platform in the namespace of their origin. Thus, a violation that only
results from runtime, patches and defaults together is reported here, and not after the platform has begun to create
objects.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

from trainyard.checks.finding import Finding
from trainyard.policy.review import (
    AdmissionContext,
    Decision,
    DecisionUnavailableError,
    FindingFilter,
    Review,
    Violation,
    decision_of,
    documents_of,
    platform_controller,
)
from trainyard.settings.platform import PolicySettings

NO_DECISION: Final = "POL-000"
"""Rule id of findings without a decision; no rule of the catalog has this id."""


class DecisionSource(Protocol):
    """Source of decisions: a client of the policy server."""

    async def decide_all(self, documents: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return one decision per request; raise DecisionUnavailableError otherwise."""
        ...


@dataclass(frozen=True)
class GateDecision:
    """Merged decision about a request and the objects rendered from it.

    Parameters
    ----------
    denials
        Violations for which it is rejected; empty if it is allowed.
    warnings, audits
        Other violations: for the response, and for the log only.
    """

    denials: tuple[Finding, ...] = ()
    warnings: tuple[Finding, ...] = ()
    audits: tuple[Finding, ...] = ()


class PolicyGate:
    """Queries decisions and merges them.

    Parameters
    ----------
    source
        Source of decisions.
    settings
        States, parameters and exemptions of the stack.
    exempt_namespaces
        Namespaces of the platform.
    namespace
        Namespace of the service account that creates rendered objects.
    reported
        Rules that the API server also evaluates: it has already returned their warnings about the object itself.
    clock
        Wall clock (UTC), for the expiry of exemptions.
    """

    def __init__(
        self,
        source: DecisionSource,
        settings: PolicySettings,
        exempt_namespaces: Sequence[str],
        *,
        namespace: str,
        reported: Iterable[str] = (),
        clock: Callable[[], datetime.datetime] = lambda: datetime.datetime.now(datetime.UTC),
    ) -> None:
        self._source = source
        self._settings = settings
        self._exempt = tuple(exempt_namespaces)
        self._reported = frozenset(reported)
        self._clock = clock
        self._controller = platform_controller(namespace)

    async def review(self, review: Review, made: Iterable[Mapping[str, Any]] = ()) -> GateDecision:
        """Return the merged decision about a request.

        Parameters
        ----------
        review
            The request.
        made
            Objects that the platform will create if the request is allowed.

        Raises
        ------
        DecisionUnavailableError
            There is no decision: the request must be rejected.
        """
        # A finding of several objects is reported for the first one; users expect it at the JobSet, which has the pods.
        bodies = sorted(made, key=lambda body: bool(body["kind"] != "JobSet"))
        reviews = [review, *(self._creation(review, body) for body in bodies)]
        document = documents_of(reviews, AdmissionContext(self._settings, self._exempt, self._clock()))
        answers = await self._source.decide_all(document)
        if len(answers) != len(reviews):
            raise DecisionUnavailableError("the policy server returned a wrong number of decisions")
        own, *rest = (decision_of(answer) for answer in answers)
        reported, others = FindingFilter(own.findings), list(zip(bodies, rest, strict=True))
        denials = (*_plain(own.violations), *_rendered_findings(others, reported, lambda decision: decision.violations))
        if not all(decision.allowed for decision in (own, *rest)) and not denials:
            raise DecisionUnavailableError("the policy server rejects the request without a reason")
        warnings = (finding for finding in own.warnings if finding.rule not in self._reported)
        return GateDecision(
            denials,
            (*_plain(warnings), *_rendered_findings(others, reported, lambda decision: decision.warnings)),
            (*_plain(own.audits), *_rendered_findings(others, reported, lambda decision: decision.audits)),
        )

    def _creation(self, review: Review, body: Mapping[str, Any]) -> Review:
        return replace(
            review,
            operation="CREATE",
            object=body,
            old_object=None,
            administrator=False,
            runtime=None,
            subresource="",
            **self._controller,
        )


def unavailable(error: DecisionUnavailableError) -> Finding:
    """Return the finding for a missing decision."""
    return Finding("", error.message, error.fix, NO_DECISION)


def _plain(findings: Iterable[Violation]) -> Iterator[Finding]:
    for finding in findings:
        yield Finding(finding.path, finding.message, finding.fix, finding.rule or NO_DECISION)


def _rendered_findings(
    decisions: Iterable[tuple[Mapping[str, Any], Decision]],
    reported: FindingFilter,
    of: Callable[[Decision], Iterable[Violation]],
) -> Iterator[Finding]:
    """Yield findings that only rendered objects have."""
    for body, decision in decisions:
        for finding in _plain(reported.unreported(of(decision))):
            yield replace(finding, path=f"{body['kind']} {body['metadata']['name']} {finding.path}".rstrip())
