"""Gate: one decision about an object and all objects rendered from it, for webhook and reconciler.

The made objects are judged as what they will be: created by the platform in the namespace of their origin. So a rule
that can only be broken by what comes out of runtime, patches and defaults together is broken here, and not first when
the platform has already begun to create.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

from trainyard.checks.finding import Finding
from trainyard.policy.review import (
    Decision,
    DecisionUnavailableError,
    Review,
    Said,
    Surroundings,
    Violation,
    decision_of,
    documents_of,
    platform_controller,
)
from trainyard.settings.platform import PolicySettings

__all__ = ["NO_DECISION", "DecisionSource", "Gate", "Ruling", "unavailable"]

NO_DECISION: Final = "POL-000"
"""Stands for the rule where nothing could be judged; no rule of the catalog has this id."""


class DecisionSource(Protocol):
    """What answers about requests: the client of the policy server."""

    async def decide_all(self, documents: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return the decisions about several requests; DecisionUnavailableError where there is not one for each."""
        ...


@dataclass(frozen=True)
class Ruling:
    """What is to be said about a request.

    Parameters
    ----------
    denials
        Why it is refused; empty where it is allowed.
    warnings, audits
        What else is wrong: to be told to whoever asks, and to be written down only.
    """

    denials: tuple[Finding, ...] = ()
    warnings: tuple[Finding, ...] = ()
    audits: tuple[Finding, ...] = ()


class Gate:
    """Asks for decisions and puts them together.

    Parameters
    ----------
    source
        Answers about requests.
    settings
        States, parameters and exemptions of the stack.
    exempt_namespaces
        Namespaces of the platform.
    namespace
        Namespace of the service account that creates the made objects.
    told
        Rules that the API server has judged before: it has warned of the object itself already.
    clock
        Wall clock (UTC), by which exemptions end.
    """

    def __init__(
        self,
        source: DecisionSource,
        settings: PolicySettings,
        exempt_namespaces: Sequence[str],
        *,
        namespace: str,
        told: Iterable[str] = (),
        clock: Callable[[], datetime.datetime] = lambda: datetime.datetime.now(datetime.UTC),
    ) -> None:
        self._source = source
        self._settings = settings
        self._exempt = tuple(exempt_namespaces)
        self._told = frozenset(told)
        self._clock = clock
        self._controller = platform_controller(namespace)

    async def judge(self, review: Review, made: Iterable[Mapping[str, Any]] = ()) -> Ruling:
        """Return the ruling about a request.

        Parameters
        ----------
        review
            The request itself.
        made
            Objects that the platform will create when it is granted.

        Raises
        ------
        DecisionUnavailableError
            There is no decision: the request must be refused.
        """
        # What is wrong with several of them is said of the first; people look for it where the pods are.
        bodies = sorted(made, key=lambda body: bool(body["kind"] != "JobSet"))
        reviews = [review, *(self._creation(review, body) for body in bodies)]
        document = documents_of(reviews, Surroundings(self._settings, self._exempt, self._clock()))
        answers = await self._source.decide_all(document)
        if len(answers) != len(reviews):
            raise DecisionUnavailableError("the policy server answered for another number of requests")
        own, *rest = (decision_of(answer) for answer in answers)
        said, others = Said(own.findings), list(zip(bodies, rest, strict=True))
        denials = (*_problems(own.violations), *_made(others, said, lambda decision: decision.violations))
        if not all(decision.allowed for decision in (own, *rest)) and not denials:
            raise DecisionUnavailableError("the policy server refuses without a reason")
        warnings = (finding for finding in own.warnings if finding.rule not in self._told)
        return Ruling(
            denials,
            (*_problems(warnings), *_made(others, said, lambda decision: decision.warnings)),
            (*_problems(own.audits), *_made(others, said, lambda decision: decision.audits)),
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
    """Return what is told where there is no decision."""
    return Finding("", error.message, error.fix, NO_DECISION)


def _problems(findings: Iterable[Violation]) -> Iterator[Finding]:
    for finding in findings:
        yield Finding(finding.path, finding.message, finding.fix, finding.rule or NO_DECISION)


def _made(
    decisions: Iterable[tuple[Mapping[str, Any], Decision]],
    said: Said,
    of: Callable[[Decision], Iterable[Violation]],
) -> Iterator[Finding]:
    """Yield what is wrong with made objects only."""
    for body, decision in decisions:
        for problem in _problems(said.news(of(decision))):
            yield replace(problem, path=f"{body['kind']} {body['metadata']['name']} {problem.path}".rstrip())
