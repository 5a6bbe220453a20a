"""Review of a stack: all its objects at once, with its own tenants and platform as parameters."""

from __future__ import annotations

import asyncio
import datetime
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, Final

from trainyard.api.constants import API_VERSION, TRAIN_JOB
from trainyard.checks.finding import Severity
from trainyard.checks.printable_text import printable
from trainyard.errors import TrainyardError
from trainyard.policy.check.train_job_check import Resolved, resolved
from trainyard.policy.check.world import DEFAULT_NAMESPACE
from trainyard.policy.engines.opa.address import OpaAddress
from trainyard.policy.engines.opa.bundle import build_bundle
from trainyard.policy.engines.opa.local_server import OpaServer
from trainyard.policy.pack.stack_context import CONTEXT_KINDS, StackContext
from trainyard.policy.pack.stack_resources import StackObject, StackResource, objects_of, unreadable
from trainyard.policy.pack.stack_values import masked, overlaps
from trainyard.policy.review import (
    PLAIN_KINDS,
    AdmissionContext,
    Decision,
    FindingFilter,
    Review,
    Violation,
    decision_of,
    documents_of,
)
from trainyard.policy.rules.admission_rule import AdmissionRule, Reach
from trainyard.policy.rules.listed_controllers import with_listed_controllers
from trainyard.policy.rules.parameters import MISSING_PARAMETER
from trainyard.policy.rules.rule_catalog import load_rules
from trainyard.policy.stack_objects import policy_settings, rule_catalogs
from trainyard.settings.platform import PolicySettings, PolicyState
from trainyard.settings.stack import StackSettings

REVIEW_VARIABLE: Final = "TRAINYARD_REVIEW"
"""Set to ``true``, the program of an update reviews what it declares before anything is written."""

WHOLE: Final = "trainyard"
"""Policy name of reports without a rule, such as a failed evaluation."""

_BATCH: Final = 64
_TIMEOUT: Final = 60.0
_SHOWN: Final = (PolicyState.DENY, PolicyState.WARN)

Key = tuple[str, str | None, str]
"""Identity of a finding: the label of the rendered object, the rule, and the path."""


@dataclass(frozen=True)
class PackReport:
    """One report about a resource.

    Parameters
    ----------
    policy
        Id of the rule, or :data:`WHOLE`.
    urn
        URN of the resource; empty for the stack.
    mandatory
        Whether it fails the preview.
    message
        Path, message and fix; secrets are masked.
    undecided
        Whether it depends on an unknown value.
    """

    policy: str
    urn: str
    mandatory: bool
    message: str
    undecided: bool = False


@dataclass(frozen=True)
class _Subject:
    """One object and its reviews.

    Parameters
    ----------
    candidates
        For each possible manifest of the object: reviews by the label of the reviewed object, and the findings of
        schema and rendering.
    """

    object: StackObject
    candidates: tuple[tuple[tuple[tuple[str, Review], ...], tuple[Violation, ...]], ...]
    unlabelled: bool

    @property
    def reviews(self) -> Iterator[Review]:
        return (review for reviews, _ in self.candidates for _, review in reviews)


class PolicyPack:
    """The rules for one stack, evaluated by a policy server with the lifetime of the pack.

    Parameters
    ----------
    program
        Returns the ``opa`` program.
    settings
        The settings of the platform's stack; None if unknown.
    states
        Overrides of the settings' states by rule id.
    exempt_namespaces
        Further namespaces to which tenant rules do not apply.
    """

    def __init__(
        self,
        program: Callable[[], Path],
        settings: StackSettings | None = None,
        *,
        states: Mapping[str, PolicyState] | None = None,
        exempt_namespaces: Iterable[str] = (),
    ) -> None:
        self._program = program
        self._settings = settings
        self._exempt = tuple(exempt_namespaces)
        self._folders = rule_catalogs(settings)
        listed = settings.policies.pod_controllers if settings else ()
        self.rules: tuple[AdmissionRule, ...] = tuple(with_listed_controllers(load_rules(*self._folders), listed))
        policies = policy_settings(settings, self.rules) if settings else PolicySettings()
        self._policies = policies.model_copy(update={"states": {**policies.states, **(states or {})}})
        self._reach = {rule.id: rule.reach for rule in self.rules}
        self._scopes = {(match.group, match.kind): match.scope for rule in self.rules for match in rule.matches}
        self._kinds = {kind for _, kind in self._scopes} | CONTEXT_KINDS
        self._server: OpaServer | None = None
        self._address: OpaAddress | None = None
        self._lock = threading.Lock()

    def state(self, rule: AdmissionRule) -> PolicyState:
        """Return the effect of a violation of a rule in this stack."""
        return self._policies.states.get(rule.id, rule.state)

    def reads(self, kind: str) -> bool:
        """Return whether objects of a kind are read; others need not be decoded."""
        return kind in self._kinds or kind.endswith("List")

    def start(self) -> OpaAddress:
        """Start the policy server unless it is running, and return its address.

        Raises
        ------
        TrainyardError
            The policy server cannot be started.
        """
        with self._lock:
            if self._address is None:
                server = OpaServer(self._program, build_bundle(*self._folders[1:], rules=self.rules))
                self._address = server.__enter__()
                self._server = server
            return self._address

    def stop(self) -> None:
        """Stop the policy server."""
        with self._lock:
            server, self._server, self._address = self._server, None, None
        if server is not None:
            server.__exit__(None, None, None)

    def evaluate(self, resources: Iterable[StackResource]) -> list[PackReport]:
        """Return the violations of a stack; an error that prevents the review is a violation too."""
        try:
            return asyncio.run(self._evaluate(list(resources)))
        except TrainyardError as error:
            return [PackReport(WHOLE, "", True, str(error))]
        except Exception as error:
            reason = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            return [
                PackReport(WHOLE, "", True, f"The stack could not be reviewed: {reason}. Fix: report this as a bug")
            ]

    async def _evaluate(self, resources: Sequence[StackResource]) -> list[PackReport]:
        objects = list(objects_of(resources))
        context = StackContext(self._settings, objects)
        subjects = [subject for each in objects if (subject := self._subject(each, context))]
        decisions = await self._decisions([review for each in subjects for review in each.reviews], context)
        reports = [
            PackReport(WHOLE, resource.urn, False, f"undecided until the stack is up: {reason}", undecided=True)
            for resource, reason in unreadable(resources)
        ]
        answers = iter(decisions)
        for subject in subjects:
            reports += self._reports(subject, answers)
        return reports

    async def _decisions(self, reviews: Sequence[Review], context: StackContext) -> list[Decision]:
        if not reviews:
            return []
        from trainyard.policy.engines.opa.hanging_rules import decisions_of

        exempt = (*context.exempt_namespaces, *self._exempt)
        shared = AdmissionContext(self._policies, exempt, datetime.datetime.now(datetime.UTC))
        address = await asyncio.to_thread(self.start)
        decisions: list[Decision] = []
        async with decisions_of(address, [rule.id for rule in self.rules], seconds=_TIMEOUT) as client:
            for start in range(0, len(reviews), _BATCH):
                document = documents_of(reviews[start : start + _BATCH], shared)
                decisions += [decision_of(each) for each in await client.decide_all(document)]
        return decisions

    def _subject(self, subject: StackObject, context: StackContext) -> _Subject | None:
        scope = self._scopes.get((subject.group, subject.kind))
        if scope is None:
            return None
        clustered = scope == "Cluster"
        namespace = "" if clustered else subject.namespace
        if namespace == "" and not clustered:
            namespace = DEFAULT_NAMESPACE
        doubts = (MISSING_PARAMETER,) if context.unknown(namespace) else ()
        common = context.review(namespace or "", clustered=clustered)
        candidates = []
        for manifest in subject.manifests():
            body = manifest.body
            rendered: tuple[Mapping[str, Any], ...] = ()
            admission: tuple[Violation, ...] = ()
            runtime: Mapping[str, Any] | None = None
            if (body["apiVersion"], subject.kind) == (API_VERSION, TRAIN_JOB) and not subject.patch:
                outcome = resolved(manifest, context.world)
                body, rendered = outcome.body, outcome.objects
                runtime = outcome.runtime.body if outcome.runtime else None
                admission = tuple(_admission_findings(outcome, doubtful=bool(doubts)))
            reviews = [("", Review("CREATE", body, runtime=runtime, unknown=(*subject.unknown, *doubts), **common))]
            by_controller = {**common, **context.controller}
            for made in filter(self._is_reviewed, rendered):
                label = f"{made['kind']} {namespace}/{made['metadata']['name']}: "
                reviews.append((label, Review("CREATE", made, unknown=doubts, **by_controller)))
            candidates.append((tuple(reviews), admission))
        return _Subject(subject, tuple(candidates), context.unlabelled(namespace))

    def _is_reviewed(self, body: Mapping[str, Any]) -> bool:
        return body["kind"] not in PLAIN_KINDS and (_group(body), body["kind"]) in self._scopes

    def _reports(self, subject: _Subject, decisions: Iterator[Decision]) -> Iterator[PackReport]:
        """Yield the reports about an object: findings of all its possible manifests are certain, others undecided.

        Certain findings of rendered objects are not suppressed by undecided findings of their TrainJob.
        """
        seen: dict[Key, Violation] = {}
        certain: set[Key] | None = None
        for reviews, admission in subject.candidates:
            found: dict[Key, Violation] = {("", each.rule, each.path): each for each in admission}
            doubtful: dict[Key, Violation] = {}
            for label, review in reviews:
                decision = next(decisions)
                for each in (*decision.violations, *decision.warnings, *decision.undecided):
                    undecided = any(overlaps(each.path, path) for path in review.unknown)
                    if each.state in _SHOWN:
                        (doubtful if undecided else found).setdefault((label, each.rule, each.path), each)
            decided = {key for key, each in found.items() if not self._doubtful(subject, key, each)}
            certain = decided if certain is None else certain & decided
            for key, each in (found | doubtful).items():
                seen.setdefault(key, each)
        sure = certain or set()
        chosen = {
            *_deduplicated(seen, lambda key: key in sure),
            *_deduplicated(seen, lambda key: not key[0] or key not in sure),
        }
        for key in sorted(chosen, key=lambda key: (key[0], key[1] or "", key[2])):
            yield self._report(subject, key, seen[key], sure=key in sure)

    def _report(self, subject: _Subject, key: Key, finding: Violation, *, sure: bool) -> PackReport:
        label, rule, path = key
        where = f"{label}{path}" if label else f"{subject.object.prefix}{path}"
        text = printable(masked(f"{where}: {finding.message}. Fix: {finding.fix}", subject.object.secrets))
        if not sure:
            text = f"undecided until the stack is up: {text}"
        mandatory = sure and finding.state is PolicyState.DENY
        return PackReport(rule or WHOLE, subject.object.urn, mandatory, text, undecided=not sure)

    def _doubtful(self, subject: _Subject, key: Key, finding: Violation) -> bool:
        """Return whether a finding depends on unknown properties of the namespace or of the patched object."""
        label, rule, path = key
        reach = self._reach.get(rule or "")
        if subject.object.namespace is None and reach in (Reach.TENANTS, Reach.LABELLED):
            return True
        if subject.unlabelled and reach is Reach.LABELLED:
            return True
        absent = not label and path != MISSING_PARAMETER and path not in subject.object.places
        return subject.object.patch and absent and finding.rule is not None


def _deduplicated(seen: Mapping[Key, Violation], chosen: Callable[[Key], bool]) -> Iterator[Key]:
    """Yield the keys to report: rendered objects do not repeat the findings of the object itself."""
    keys = sorted(filter(chosen, seen), key=lambda key: (key[0], key[1] or "", key[2]))
    reported = FindingFilter(seen[key] for key in keys if not key[0])
    for label, group in groupby(keys, key=lambda key: key[0]):
        found = [seen[key] for key in group]
        for each in reported.unreported(found) if label else found:
            yield label, each.rule, each.path


def _group(body: Mapping[str, Any]) -> str:
    return str(body["apiVersion"]).rpartition("/")[0]


def _admission_findings(outcome: Resolved, *, doubtful: bool) -> Iterator[Violation]:
    """Yield findings of a TrainJob's admission, beside the rules; as warnings if its context is unknown."""
    for error in outcome.errors:
        state = PolicyState.WARN if doubtful else PolicyState.DENY
        yield Violation(error.path, error.message, error.fix, error.rule, state=state)
    for warning in outcome.warnings:
        yield Violation(
            warning.path,
            warning.message,
            warning.fix,
            warning.rule,
            severity=Severity.WARNING,
            state=PolicyState.WARN,
        )
