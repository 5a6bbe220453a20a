"""A TrainJob under check: its schema, its admission, and the objects that it becomes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from trainyard.api import Body, TrainJob, parse
from trainyard.api.constants import MANAGED_BY_TRAINER
from trainyard.api.verdicts import decoded, violations
from trainyard.policy.check.sources import Manifest
from trainyard.policy.check.world import DEFAULT_NAMESPACE, FoundRuntime, World
from trainyard.problem import Problem, TrainyardError
from trainyard.render import Rendered, render, validate
from trainyard.render.defaults import defaulted, wants_runtime

__all__ = ["Resolved", "resolved", "runtime_of"]

_NOW: Final = "1970-01-01T00:00:00Z"
"""Stands for the time of admission, which no object shows."""


@dataclass(frozen=True)
class Resolved:
    """What became of a TrainJob.

    Parameters
    ----------
    body
        The TrainJob as the API server would store it.
    errors, warnings
        What schema and admission say.
    objects
        What it becomes; nothing where there are errors.
    runtime
        Its runtime; None where there is none.
    """

    body: Body
    errors: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()
    objects: tuple[Body, ...] = ()
    runtime: FoundRuntime | None = None


def resolved(manifest: Manifest, world: World) -> Resolved:
    """Return what becomes of a TrainJob in its surroundings."""
    namespace, file = manifest.namespace or DEFAULT_NAMESPACE, manifest.source.path
    sent = decoded(TrainJob, manifest.body)
    found = runtime_of(sent, namespace, file, world)
    wanted = found.runtime if found and wants_runtime(sent) else None
    body = defaulted(sent, None, _NOW, wanted)
    try:
        train_job = parse(TrainJob, body)
    except TrainyardError as error:
        return Resolved(body, error.problems, runtime=found)
    refused = tuple(violations(TrainJob, body))
    if train_job.spec is not None and train_job.spec.managed_by != MANAGED_BY_TRAINER:
        return Resolved(body, refused, runtime=found)
    if found and found.errors:
        return Resolved(body, (*refused, _broken(body, found)), runtime=found)
    context = world.context(namespace, file)
    runtime = found.runtime if found else None
    verdict = validate(train_job, runtime, context)
    errors = (*refused, *(error for error in verdict.errors if error not in refused))
    if errors or runtime is None:
        return Resolved(body, errors, verdict.warnings, runtime=found)
    result = render(train_job, runtime, context)
    if not isinstance(result, Rendered):
        return Resolved(body, result.errors, verdict.warnings, runtime=found)
    return Resolved(body, (), verdict.warnings, result.objects, found)


def runtime_of(body: Body, namespace: str, file: Path | None, world: World) -> FoundRuntime | None:
    """Return the runtime that a TrainJob names, None where there is none."""
    spec = body.get("spec")
    reference = spec.get("runtimeRef") if isinstance(spec, dict) else None
    if not isinstance(reference, dict):
        return None
    kind, name = reference.get("kind"), reference.get("name")
    if not isinstance(kind, str) or not isinstance(name, str):
        return None
    return world.runtime(kind, namespace, name, file)


def _broken(body: Body, found: FoundRuntime) -> Problem:
    reference = body["spec"]["runtimeRef"]
    first = found.errors[0]
    more = f" (and {len(found.errors) - 1} more)" if len(found.errors) > 1 else ""
    message = f'{reference["kind"]} "{reference["name"]}" is wrong: {first.path}: {first.message}{more}'
    return Problem("spec.runtimeRef", message, "correct the runtime or name another one")
