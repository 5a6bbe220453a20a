"""Checker: reviews objects in batches and merges duplicate findings."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, Final

from trainyard.api import MODELS, Body, Platform, TenantPolicy, parse
from trainyard.api.constants import API_VERSION, TRAIN_JOB
from trainyard.api.verdicts import decoded, violations
from trainyard.checks.finding import Finding, Severity
from trainyard.checks.report.report import Report
from trainyard.errors import TrainyardError
from trainyard.jobs.runtimes.runtime_lint import lint_runtime, lint_train_job
from trainyard.policy.check.job_validation import JobValidator
from trainyard.policy.check.kind_names import KindNames
from trainyard.policy.check.null_texts import with_empty_texts
from trainyard.policy.check.sources import Manifest, Sources
from trainyard.policy.check.train_job_check import Resolved, resolved, runtime_of
from trainyard.policy.check.world import DEFAULT_NAMESPACE, CheckContext, FoundRuntime, is_runtime
from trainyard.policy.engines.api_validator import ApiValidator
from trainyard.policy.gate import DecisionSource
from trainyard.policy.review import (
    PLAIN_KINDS,
    AdmissionContext,
    Decision,
    FindingFilter,
    Review,
    Violation,
    decision_of,
    documents_of,
    platform_controller,
)
from trainyard.policy.rules.admission_rule import AdmissionRule
from trainyard.policy.rules.parameters import MISSING_PARAMETER
from trainyard.settings.platform import PolicyState
from trainyard.settings.sections.trainer import CONTROLLER_NAMESPACE

AUTHOR: Final = "unknown user"
"""User that creates the objects of files; has no rights of the platform."""

_BATCH: Final = 64
_CONNECTIONS: Final = 2


@dataclass(frozen=True)
class _Subject:
    """One object: its findings of schema and rendering, and its reviews."""

    manifest: Manifest
    name: str
    findings: tuple[Finding, ...]
    reviews: tuple[tuple[str, Review], ...]


class Checker:
    """Checks objects against the rules.

    Parameters
    ----------
    rules
        The catalog of the decision source.
    world
        Tenants, platform and runtimes.
    context
        Settings of the stack, and the rules to evaluate.
    live
        Whether the objects exist in a cluster: they are already admitted, rendered objects are audited themselves, and
        the user is unknown. Findings of rules in state audit are included.
    platform_namespace
        Namespace of the controller, which creates rendered objects.
    optional_parameters
        Whether rules whose parameter objects are missing are named in a note instead of reported for every object.
    validator
        Validates the Jobs of rendered objects as the API server does; None: they are not validated.
    """

    def __init__(
        self,
        rules: Iterable[AdmissionRule],
        world: CheckContext,
        context: AdmissionContext,
        *,
        live: bool = False,
        platform_namespace: str = CONTROLLER_NAMESPACE,
        optional_parameters: bool = False,
        validator: ApiValidator | None = None,
    ) -> None:
        self._scopes = {(match.group, match.kind): match.scope for rule in rules for match in rule.matches}
        self._kinds = KindNames(self._scopes)
        self._world = world
        self._context = context
        self._only = None if context.only is None else frozenset(context.only)
        self._shown = ("violations", "warnings", "audits") if live else ("violations", "warnings")
        self._live = live
        self._controller = platform_controller(platform_namespace)
        self._optional_parameters = optional_parameters
        self._validator = JobValidator(None if live else validator, world)

    async def check(
        self, sources: Sources, source: DecisionSource, *, changed: frozenset[Path] | None = None
    ) -> Report:
        """Return the report about the objects.

        Parameters
        ----------
        sources
            The objects.
        source
            Source of decisions.
        changed
            Check only objects of these files and objects that depend on one of them; None: all.

        Raises
        ------
        TrainyardError
            A decision is unavailable.
        """
        subjects = self._subjects(sources.manifests, changed)
        results: list[Finding] = list(sources.faults)
        checked: list[tuple[str, str]] = []
        counts: Counter[str] = Counter()
        skipped: set[tuple[str, str]] = set()
        connections = asyncio.Semaphore(_CONNECTIONS)
        waiting: deque[tuple[list[_Subject], asyncio.Task[list[dict[str, Any]]]]] = deque()

        def settle() -> None:
            batch, task = waiting.popleft()
            decisions = iter(task.result())
            for subject in batch:
                answers = [decision_of(next(decisions)) for _ in subject.reviews]
                if self._optional_parameters:
                    answers = [_without_parameters(answer, skipped) for answer in answers]
                results.extend(self._results(subject, answers, counts))
                checked.append((subject.manifest.source.name, subject.name))

        try:
            while batch := await asyncio.to_thread(_batch, subjects):
                waiting.append((batch, asyncio.create_task(self._decisions(batch, source, connections))))
                while waiting and waiting[0][1].done():
                    settle()
            while waiting:
                await waiting[0][1]
                settle()
        finally:
            for _, task in waiting:
                task.cancel()
        notes = (*sources.notes, *_not_evaluated(skipped), *self._validator.notes)
        return Report((), tuple(sorted(checked)), notes, dict(counts)).with_findings(results)

    async def _decisions(
        self, batch: Sequence[_Subject], source: DecisionSource, connections: asyncio.Semaphore
    ) -> list[dict[str, Any]]:
        reviews = [review for subject in batch for _, review in subject.reviews]
        if not reviews:
            return []
        async with connections:
            return await source.decide_all(documents_of(reviews, self._context))

    def _subjects(self, manifests: Iterable[Manifest], changed: frozenset[Path] | None) -> Iterator[_Subject]:
        for manifest in manifests:
            if (subject := self._subject(manifest, changed)) is not None:
                yield subject

    def _subject(self, manifest: Manifest, changed: frozenset[Path] | None) -> _Subject | None:
        """Return the reviews of an object, or None if the decisions depend on none of the changed files."""
        file = manifest.source.path
        namespace = manifest.namespace or DEFAULT_NAMESPACE
        platform_file, platform = self._world.platform(file)
        tenant_file, tenant = self._world.tenant_policy(namespace, file)
        labels_file, labels = self._world.namespace_labels(namespace, file)
        scope = self._scopes.get((manifest.group, manifest.kind))
        clustered = scope == "Cluster" or (scope is None and manifest.namespace is None)
        name = " ".join(filter(None, (manifest.kind, manifest.name if clustered else f"{namespace}/{manifest.name}")))
        body = manifest.body
        outcome: Resolved | None = None
        found: FoundRuntime | None = None
        if (body["apiVersion"], manifest.kind) == (API_VERSION, TRAIN_JOB):
            outcome = None if self._live else resolved(manifest, self._world)
            found = outcome.runtime if outcome else runtime_of(body, namespace, file, self._world)
        if changed is not None and file is not None:
            depends = (file, platform_file, tenant_file, labels_file, found and found.file)
            if not any(each.resolve() in changed for each in depends if each):
                return None
        findings: list[Finding] = []
        rendered: tuple[Body, ...] = ()
        if outcome is not None:
            outcome = self._validator.of_train_job(outcome)
            body, rendered = outcome.body, outcome.objects
            findings += (*outcome.errors, *_warnings(outcome.warnings))
            if found and rendered:
                findings += _warnings(lint_train_job(body, found.body, rendered, lambda: self._world.capacities))
        elif not self._live:
            findings += (*self._kinds.findings(manifest), *_shape(manifest, self._world))
            findings += self._validator.findings(manifest)
            if is_runtime(manifest):
                body = self._world.found(manifest).body
        if not self._live:
            body = with_empty_texts(body)
        runtime = found.body if found else None
        author: dict[str, Any] = self._controller if self._live else {"user": AUTHOR}
        common: dict[str, Any] = {"platform": platform}
        if not clustered:
            common |= {"namespace": namespace, "namespace_labels": labels, "tenant_policy": tenant}
        reviews = []
        if scope is not None:
            reviews.append((name, Review("CREATE", body, runtime=runtime, **author, **common)))
        for each in rendered:
            if each["kind"] in PLAIN_KINDS or (each["apiVersion"].rpartition("/")[0], each["kind"]) not in self._scopes:
                continue
            label = f"{each['kind']} {namespace}/{each['metadata']['name']} (from {name})"
            reviews.append((label, Review("CREATE", each, **self._controller, **common)))
        return _Subject(manifest, name, tuple(findings), tuple(reviews))

    def _results(self, subject: _Subject, decisions: Sequence[Decision], counts: Counter[str]) -> Iterator[Finding]:
        """Yield the findings of an object; rendered objects do not repeat its findings."""
        reported: FindingFilter | None = None
        evaluated: set[tuple[str | None, str]] = set()
        for number, ((label, _), decision) in enumerate(zip(subject.reviews, decisions, strict=True)):
            counts["exempted"] += len(decision.exempted)
            counts["audited"] += len(decision.audits)
            found = [finding for name in self._shown for finding in getattr(decision, name)]
            if reported is None:
                reported, evaluated = FindingFilter(found), {(finding.rule, finding.path) for finding in found}
            else:
                found = reported.unreported(found)
            for finding in found:
                yield self._located(subject, label, finding, own=not number)
        for each in subject.findings:
            if self._only is not None and each.rule not in self._only:
                continue
            if each.rule is None or (each.rule, each.path) not in evaluated:
                file, line = subject.manifest.source.name, subject.manifest.line(each.path)
                yield replace(each, object=subject.name, file=file, line=line)

    def _located(self, subject: _Subject, label: str, finding: Violation, *, own: bool) -> Finding:
        severity = Severity.ERROR if finding.state is PolicyState.DENY else Severity.WARNING
        line = subject.manifest.line(finding.path if own else "")
        plain = Finding(finding.path, finding.message, finding.fix, finding.rule, severity=severity)
        return replace(plain, object=label, file=subject.manifest.source.name, line=line)


def _batch(subjects: Iterator[_Subject]) -> list[_Subject]:
    return list(islice(subjects, _BATCH))


def _without_parameters(decision: Decision, skipped: set[tuple[str, str]]) -> Decision:
    """Return the decision without violations about missing parameter objects, which are collected in ``skipped``."""
    missing = [each for each in decision.violations if each.path == MISSING_PARAMETER and each.rule is not None]
    skipped |= {(each.message, each.rule or "") for each in missing}
    return replace(decision, violations=tuple(each for each in decision.violations if each not in missing))


def _not_evaluated(skipped: set[tuple[str, str]]) -> Iterator[str]:
    """Yield one note that names the rules without parameters, by the missing object."""
    if skipped:
        reasons = [
            f"{', '.join(sorted(rule for reason, rule in skipped if reason == message))} ({message})"
            for message in sorted({message for message, _ in skipped})
        ]
        yield f"not evaluated: {'; '.join(reasons)}; name a stack with --stack, or add a Platform and a TenantPolicy"


def _warnings(findings: Iterable[Finding]) -> Iterator[Finding]:
    return (replace(finding, severity=Severity.WARNING) for finding in findings)


def _shape(manifest: Manifest, world: CheckContext) -> Iterator[Finding]:
    """Yield schema findings of the platform's kinds, except TrainJobs, which `resolved` validates."""
    for field in ("name", "namespace"):
        if not isinstance(manifest.metadata.get(field, ""), str):
            yield Finding(f"metadata.{field}", "is not a string", "quote it")
    model = MODELS.get((manifest.body["apiVersion"], manifest.kind))
    if model in (TenantPolicy, Platform):
        sent: Body = decoded(model, manifest.body)
        try:
            parsed = parse(model, sent)
        except TrainyardError as error:
            yield from error.findings
            return
        yield from violations(model, sent)
        for path in parsed.unknown_fields():
            message = "unknown field: the API server drops it"
            yield Finding(path, message, "remove it, or correct its name", severity=Severity.WARNING)
    elif is_runtime(manifest):
        found = world.found(manifest)
        yield from found.errors
        yield from _warnings(found.warnings)
        if not found.errors:
            yield from _warnings(lint_runtime(found.body))
