"""Submitted runtimes and TrainJobs, and their admission.

What reads files asks here, so that it says what a cluster would say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
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
from trainyard.api.verdicts import decoded, violations
from trainyard.checks.finding import Finding
from trainyard.errors import TrainyardError
from trainyard.render.defaults import defaulted, wants_runtime
from trainyard.render.pipeline import admit
from trainyard.render.result import RenderContext
from trainyard.render.runtime_admission import validate_runtime

__all__ = ["RUNTIME_MODELS", "SentRuntime", "Submission", "named_runtime", "read_runtime", "submitted"]

RUNTIME_MODELS: Final[Mapping[str, type[KubernetesModel]]] = {
    TRAINING_RUNTIME: TrainingRuntime,
    CLUSTER_TRAINING_RUNTIME: ClusterTrainingRuntime,
}
"""The model of each kind of runtime."""

_NOW: Final = "1970-01-01T00:00:00Z"
"""Stands for the time of admission, which no object shows."""


@dataclass(frozen=True)
class SentRuntime:
    """A runtime, or why it is none.

    Parameters
    ----------
    body
        The runtime as it is stored.
    runtime
        The same as a model; None where it does not fit its schema.
    errors, warnings
        What is wrong with it, by its own paths.
    """

    body: Body
    runtime: Runtime | None
    errors: tuple[Finding, ...] = ()
    warnings: tuple[Finding, ...] = ()


Found = TypeVar("Found", bound=SentRuntime)


@dataclass(frozen=True)
class Submission(Generic[Found]):
    """What became of a TrainJob.

    Parameters
    ----------
    body
        The TrainJob as the API server would store it.
    train_job
        The same as a model; None where it does not fit its schema.
    errors, warnings
        What schema and admission say.
    objects
        What it becomes; nothing where there are errors, or where another controller manages it.
    runtime
        Its runtime; None where there is none.
    """

    body: Body
    train_job: TrainJob | None = None
    errors: tuple[Finding, ...] = ()
    warnings: tuple[Finding, ...] = ()
    objects: tuple[Body, ...] = ()
    runtime: Found | None = None


def read_runtime(sent: Body, old: Runtime | None = None) -> SentRuntime:
    """Return what a runtime is, by its kind.

    Parameters
    ----------
    sent
        The object as it was written.
    old
        The stored runtime, on an update.
    """
    model = RUNTIME_MODELS[sent["kind"]]
    body = decoded(model, sent)
    try:
        runtime = parse(model, body)
    except TrainyardError as error:
        return SentRuntime(body, None, error.findings)
    assert isinstance(runtime, TrainingRuntime | ClusterTrainingRuntime)  # noqa: S101
    verdict = validate_runtime(runtime, old)
    known = {(error.path, error.rule) for error in verdict.errors}
    refused = (error for error in violations(model, body) if (error.path, error.rule) not in known)
    return SentRuntime(body, runtime, (*verdict.errors, *refused), verdict.warnings)


def named_runtime(body: Body) -> tuple[str, str] | None:
    """Return kind and name of the runtime that a TrainJob names, None where it names none."""
    spec = body.get("spec")
    reference = spec.get("runtimeRef") if isinstance(spec, dict) else None
    if not isinstance(reference, dict):
        return None
    kind, name = reference.get("kind"), reference.get("name")
    return (kind, name) if isinstance(kind, str) and isinstance(name, str) else None


def submitted(
    sent: Body,
    find: Callable[[str, str], Found | None],
    broken: Callable[[Found], Iterable[Finding]],
    context: RenderContext,
    *,
    before: Submission[Found] | None = None,
) -> Submission[Found]:
    """Return what becomes of a TrainJob.

    Parameters
    ----------
    sent
        The TrainJob as it was written.
    find
        Returns the runtime of a kind and name that the TrainJob sees.
    broken
        Returns what is said to a TrainJob about its runtime, which is wrong.
    context
        What the cluster adds.
    before
        What became of the stored TrainJob, on an update.
    """
    body = decoded(TrainJob, sent)
    named = named_runtime(body)
    found = find(*named) if named else None
    stored, old = (before.body, before.train_job) if before else (None, None)
    body = defaulted(body, stored, _NOW, found.runtime if found and wants_runtime(body) else None)
    try:
        train_job = parse(TrainJob, body)
    except TrainyardError as error:
        return Submission(body, None, error.findings, runtime=found)
    refused = tuple(violations(TrainJob, body, stored))
    if train_job.spec is not None and train_job.spec.managed_by != MANAGED_BY_TRAINER:
        return Submission(body, train_job, refused, runtime=found)
    if found and found.errors:
        return Submission(body, train_job, _merged(refused, broken(found)), runtime=found)
    verdict, objects = admit(train_job, found.runtime if found else None, context, old=old)
    errors = _merged(refused, verdict.errors)
    return Submission(body, train_job, errors, verdict.warnings, () if errors else objects, found)


def _merged(refused: tuple[Finding, ...], others: Iterable[Finding]) -> tuple[Finding, ...]:
    return (*refused, *(error for error in others if error not in refused))
