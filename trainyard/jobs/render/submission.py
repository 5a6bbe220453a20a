"""Admission of runtimes and TrainJobs that are read from files: defaults, schema validation, rendering.

The findings are those of the API server and the admission webhooks.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final, Generic, TypeVar

from trainyard.api import (
    Body,
    ClusterTrainingRuntime,
    KubernetesModel,
    Runtime,
    TrainingRuntime,
    TrainJob,
    parse,
)
from trainyard.api.constants import CLUSTER_TRAINING_RUNTIME, MANAGED_BY_TRAINER, TRAINING_RUNTIME
from trainyard.api.verdicts import decoded, embedded_violations, violations
from trainyard.checks.finding import Finding
from trainyard.errors import TrainyardError
from trainyard.jobs.render.defaults import defaulted, wants_runtime
from trainyard.jobs.render.generated_names import about_prefix, generated_name, with_name
from trainyard.jobs.render.immutability import leaves_objects
from trainyard.jobs.render.object_metadata import metadata_errors
from trainyard.jobs.render.pipeline import admit, render
from trainyard.jobs.render.result import AdmissionDecision, RenderContext, Rendered
from trainyard.jobs.render.runtime_admission import validate_runtime
from trainyard.jobs.render.typed_clients import normalized_runtime

RUNTIME_MODELS: Final[Mapping[str, type[KubernetesModel]]] = {
    TRAINING_RUNTIME: TrainingRuntime,
    CLUSTER_TRAINING_RUNTIME: ClusterTrainingRuntime,
}
"""Model of each runtime kind."""

_NOW: Final = "1970-01-01T00:00:00Z"
"""Placeholder for the time of admission, which is not part of any rendered object."""


@dataclass(frozen=True)
class SentRuntime:
    """A parsed runtime, or its errors.

    Parameters
    ----------
    body
        The runtime as the API server stores it.
    runtime
        The parsed model; None: it violates the schema.
    errors, warnings
        Findings, with field paths in the runtime.
    """

    body: Body
    runtime: Runtime | None
    errors: tuple[Finding, ...] = ()
    warnings: tuple[Finding, ...] = ()


_SEPARATORS: Final = ".["

Found = TypeVar("Found", bound=SentRuntime)


@dataclass(frozen=True)
class Submission(Generic[Found]):
    """Result of submitting a TrainJob.

    Parameters
    ----------
    body
        The TrainJob as the API server stores it.
    train_job
        The parsed model; None: it violates the schema.
    errors, warnings
        Findings of schema and admission.
    objects
        Rendered objects; empty if there are errors or another controller manages the TrainJob.
    runtime
        The referenced runtime; None: it does not exist.
    """

    body: Body
    train_job: TrainJob | None = None
    errors: tuple[Finding, ...] = ()
    warnings: tuple[Finding, ...] = ()
    objects: tuple[Body, ...] = ()
    runtime: Found | None = None


def read_runtime(sent: Body, old: Runtime | None = None, *, job_set_gates: frozenset[str] = frozenset()) -> SentRuntime:
    """Parse and validate a runtime.

    Parameters
    ----------
    sent
        The object as submitted.
    old
        The stored runtime, on an update.
    job_set_gates
        Feature gates of JobSet that are declared as enabled.
    """
    model = RUNTIME_MODELS[sent["kind"]]
    body = normalized_runtime(decoded(model, sent), None)
    try:
        runtime = parse(model, body)
    except TrainyardError as error:
        return SentRuntime(body, None, error.findings)
    assert isinstance(runtime, TrainingRuntime | ClusterTrainingRuntime)  # noqa: S101
    verdict = validate_runtime(runtime, old, job_set_gates)
    known = {(error.path, error.rule) for error in verdict.errors}
    schema_errors = (error for error in violations(model, body) if (error.path, error.rule) not in known)
    errors = (*verdict.errors, *schema_errors)
    return SentRuntime(body, runtime, (*errors, *server_errors(model, body, old, errors)), verdict.warnings)


def named_runtime(body: Body) -> tuple[str, str] | None:
    """Return kind and name of the referenced runtime, or None if the reference is missing or malformed."""
    spec = body.get("spec")
    reference = spec.get("runtimeRef") if isinstance(spec, dict) else None
    if not isinstance(reference, dict):
        return None
    kind, name = reference.get("kind"), reference.get("name")
    return (kind, name) if isinstance(kind, str) and isinstance(name, str) else None


def submitted(
    sent: Body,
    find: Callable[[str, str], Found | None],
    runtime_findings: Callable[[Found], Iterable[Finding]],
    context: RenderContext,
    *,
    before: Submission[Found] | None = None,
) -> Submission[Found]:
    """Apply defaults, validate and render a TrainJob.

    Parameters
    ----------
    sent
        The TrainJob as submitted.
    find
        Returns the runtime of a kind and name in the namespace of the TrainJob.
    runtime_findings
        Returns the findings of a TrainJob about its invalid runtime.
    context
        Facts about the cluster.
    before
        Result for the stored TrainJob, on an update.
    """
    if generated_name(sent) is not None:
        found = _submitted(with_name(sent), find, runtime_findings, context, before)
        errors, warnings = (tuple(about_prefix(findings)) for findings in (found.errors, found.warnings))
        return replace(found, errors=errors, warnings=warnings)
    return _submitted(sent, find, runtime_findings, context, before)


def _submitted(
    sent: Body,
    find: Callable[[str, str], Found | None],
    runtime_findings: Callable[[Found], Iterable[Finding]],
    context: RenderContext,
    before: Submission[Found] | None,
) -> Submission[Found]:
    body = decoded(TrainJob, sent)
    named = named_runtime(body)
    found = find(*named) if named else None
    stored, old = (before.body, before.train_job) if before else (None, None)
    body = defaulted(body, stored, _NOW, found.runtime if found and wants_runtime(body) else None)
    try:
        train_job = parse(TrainJob, body)
    except TrainyardError as error:
        return Submission(body, None, error.findings, runtime=found)
    schema_errors = tuple(violations(TrainJob, body, stored))
    objects: tuple[Body, ...] = ()
    if old is not None and train_job.spec is not None and train_job.spec.managed_by != MANAGED_BY_TRAINER:
        verdict = AdmissionDecision()
    elif old is not None and leaves_objects(train_job, old):
        verdict, objects = AdmissionDecision(), _rendered(train_job, found, context)
    elif found and found.errors:
        verdict = AdmissionDecision(tuple(runtime_findings(found)))
    else:
        verdict, objects = admit(train_job, found.runtime if found else None, context, old=old)
    errors = _merged(schema_errors, verdict.errors)
    errors = (*errors, *server_errors(TrainJob, body, old, errors))
    return Submission(body, train_job, errors, verdict.warnings, () if errors else objects, found)


def _rendered(train_job: TrainJob, found: SentRuntime | None, context: RenderContext) -> tuple[Body, ...]:
    """Return the objects of a TrainJob; empty if its runtime is missing, invalid or does not fit it."""
    if found is None or found.runtime is None or found.errors:
        return ()
    result = render(train_job, found.runtime, context)
    return result.objects if isinstance(result, Rendered) else ()


def server_errors(
    model: type[KubernetesModel], body: Body, old: KubernetesModel | None, known: Iterable[Finding]
) -> Iterator[Finding]:
    """Yield what the API server rejects in metadata and in parts with JobSet's schema.

    Parameters
    ----------
    model, body
        A decoded object and its model.
    old
        The stored object, on an update.
    known
        Other findings: fields that they name, and fields inside or around them, get no second finding.
    """
    paths = _Paths(error.path for error in known)
    found = (*metadata_errors(body), *embedded_violations(model, body, old.body() if old else None))
    for error in found:
        if not paths.related_to(error.path):
            yield error


class _Paths:
    """Paths of fields, searched without a comparison of all with all: an object can have 100,000 errors."""

    def __init__(self, paths: Iterable[str]) -> None:
        self._paths = frozenset(paths)
        self._sorted = sorted(self._paths)
        self._lengths = sorted({len(path) for path in self._paths})

    def related_to(self, path: str) -> bool:
        """Return whether one of the paths is a path, leads to it, or begins with it."""
        return path in self._paths or self._has_above(path) or self._has_below(path)

    def _has_above(self, path: str) -> bool:
        lengths = self._lengths[: bisect_left(self._lengths, len(path))]
        return any(path[length] in _SEPARATORS and path[:length] in self._paths for length in lengths)

    def _has_below(self, path: str) -> bool:
        below = (f"{path}{separator}" for separator in _SEPARATORS)
        nearest = ((prefix, bisect_left(self._sorted, prefix)) for prefix in below)
        return any(i < len(self._sorted) and self._sorted[i].startswith(prefix) for prefix, i in nearest)


def _merged(schema_errors: tuple[Finding, ...], others: Iterable[Finding]) -> tuple[Finding, ...]:
    known = frozenset(schema_errors)
    return (*schema_errors, *(error for error in others if error not in known))
