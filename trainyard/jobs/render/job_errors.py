"""Errors of the API server about the Jobs of a rendered JobSet, with paths in the objects that the user wrote."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from trainyard.api import Body, TrainJob, TrainJobSpec
from trainyard.api.constants import ANCESTOR_LABEL, CONTAINER_NODE, TRAINER
from trainyard.checks.finding import Finding, Severity
from trainyard.jobs.render.child_jobs import ChildJob, child_jobs
from trainyard.jobs.render.field_paths import PathMatch, match, steps_of
from trainyard.jobs.render.initializers import initializer_path, initializer_sources
from trainyard.jobs.render.overrides import pod_spec_overrides, pod_template_overrides
from trainyard.jobs.render.patches import runtime_patches
from trainyard.jobs.render.pod_editing import stored

_POD: Final = ("spec", "template", "spec")
_POD_PATH: Final = ".".join(_POD)
_JOBS: Final = "spec.template.spec.replicatedJobs"
_CONTAINERS: Final = ("containers", "initContainers")
_FIXES: Final = {
    "FieldValueRequired": "set it",
    "FieldValueNotFound": "define it, or remove the reference",
    "FieldValueNotSupported": "use one of the supported values",
    "FieldValueForbidden": "remove it",
    "FieldValueDuplicate": "use every value once",
}
_FIX: Final = "correct it: the API server rejects the pods"


@dataclass(frozen=True)
class FieldError:
    """An error of the API server about one field.

    Parameters
    ----------
    path
        Path in the rejected object; empty if unknown.
    message
        What is wrong, with the value.
    reason
        Kind of the error, such as ``FieldValueInvalid``.
    """

    path: str
    message: str
    reason: str = ""


Validate = Callable[[Sequence[Body]], Sequence[Sequence[FieldError]]]
"""Returns the errors with which the API server rejects the creation of each object."""


def train_job_findings(
    train_job: TrainJob, runtime: Body, objects: Iterable[Body], validate: Validate
) -> tuple[Finding, ...]:
    """Return the errors about the Jobs of a TrainJob.

    Parameters
    ----------
    train_job, runtime
        The TrainJob and its runtime.
    objects
        The rendered objects.
    validate
        Returns the errors of the API server.
    """
    spec = train_job.spec
    if spec is None:
        return ()
    found = []
    for child, error in _errors(objects, validate):
        path = _path_in_train_job(spec, runtime, child, error)
        message = f'{error.message} (the API server rejects the Jobs of replicatedJob "{child.replicated_job}")'
        if path is None:
            path, message = "spec.runtimeRef", f"{_named(runtime)}{_path_in_runtime(runtime, child, error)}: {message}"
        found.append(replace(finding_of(error, path), message=message))
    return tuple(dict.fromkeys(found))


def job_set_findings(job_set: Body, validate: Validate) -> tuple[Finding, ...]:
    """Return the errors about the Jobs of a JobSet, for which `is_job_set` is true."""
    found = [
        finding_of(error, _joined(f"spec.replicatedJobs[{child.index}].template", error.path))
        for child, error in _errors([job_set], validate)
    ]
    return tuple(dict.fromkeys(found))


def finding_of(error: FieldError, path: str) -> Finding:
    """Return the finding of an error, with the path in the object that the user wrote."""
    return Finding(path, error.message, _FIXES.get(error.reason, _FIX))


def runtime_findings(runtime: Body, objects: Iterable[Body], validate: Validate) -> tuple[Finding, ...]:
    """Return warnings about the Jobs of a runtime: a TrainJob may complete it by a patch.

    Parameters
    ----------
    runtime
        The runtime.
    objects
        Objects rendered from a sample TrainJob.
    validate
        Returns the errors of the API server.
    """
    return tuple(
        dict.fromkeys(
            replace(
                finding_of(error, _path_in_runtime(runtime, child, error)),
                message=f"{error.message} (the API server rejects the Jobs, unless a TrainJob patches this)",
                severity=Severity.WARNING,
            )
            for child, error in _errors(objects, validate)
        )
    )


def _errors(objects: Iterable[Body], validate: Validate) -> Iterator[tuple[ChildJob, FieldError]]:
    children = [child for body in objects if body["kind"] == "JobSet" for child in child_jobs(body)]
    for child, errors in zip(children, validate([child.body for child in children]), strict=True):
        for error in errors:
            yield child, error


def _path_in_train_job(spec: TrainJobSpec, runtime: Body, child: ChildJob, error: FieldError) -> str | None:
    """Return the path of a field that the TrainJob sets, or None if it is the runtime's."""
    steps = steps_of(error.path)
    if (path := _step_path(spec, child, steps)) is not None:
        return path
    _, given = _runtime_template(runtime, child)
    least = match(steps, child.body, given).missing
    changes = (*pod_spec_overrides(spec), *pod_template_overrides(spec), *runtime_patches(spec))
    for change in reversed(changes):
        found = match(steps, child.body, change.template)
        if change.job != child.replicated_job or found.missing > min(1, max(0, least - 1)):
            continue
        path = _with_missing(found, steps)
        if path.startswith(_POD_PATH):
            return f"{change.pod_path}{path.removeprefix(_POD_PATH)}"
        return _joined(change.pod_path.removesuffix(f".{_POD_PATH}"), path)
    return None


def _step_path(spec: TrainJobSpec, child: ChildJob, steps: Sequence[str | int]) -> str | None:
    """Return the path of a field of ``spec.trainer`` or ``spec.initializer``."""
    container, inner = _container(child, steps)
    step = (child.body["metadata"].get("labels") or {}).get(ANCESTOR_LABEL)
    if container is None or not inner:
        return None
    if step == TRAINER and container.get("name") == CONTAINER_NODE and spec.trainer is not None:
        trainer = stored(spec.trainer)
        if inner[0] == "resources" and trainer.get("resourcesPerNode"):
            resources = match(inner[1:], container.get("resources"), trainer["resourcesPerNode"])
            return _joined("spec.trainer.resourcesPerNode", _with_missing(resources, inner))
        given, base = (
            {key: trainer[key] for key in ("image", "command", "args", "env") if key in trainer},
            "spec.trainer",
        )
    else:
        source = initializer_sources(spec).get(str(step))
        if source is None or container.get("name") != step:
            return None
        given, base = {"env": stored(source).get("env") or []}, initializer_path(str(step))
    found = match(inner, container, given)
    return _joined(base, _with_missing(found, inner)) if found.missing == 0 or found.elements else None


def _container(child: ChildJob, steps: Sequence[str | int]) -> tuple[Body | None, Sequence[str | int]]:
    if tuple(steps[:3]) != _POD or len(steps) < 5 or steps[3] not in _CONTAINERS or not isinstance(steps[4], int):
        return None, ()
    containers: list[Any] = child.body["spec"]["template"]["spec"].get(steps[3]) or []
    return (containers[steps[4]], steps[5:]) if steps[4] < len(containers) else (None, ())


def _path_in_runtime(runtime: Body, child: ChildJob, error: FieldError) -> str:
    steps = steps_of(error.path)
    index, template = _runtime_template(runtime, child)
    return _joined(f"{_JOBS}[{index}].template", _with_missing(match(steps, child.body, template), steps))


def _runtime_template(runtime: Body, child: ChildJob) -> tuple[int, Body]:
    """Return the index and the Job template of the runtime's replicatedJob."""
    jobs = runtime["spec"]["template"]["spec"]["replicatedJobs"]
    return next((index, job["template"]) for index, job in enumerate(jobs) if job["name"] == child.replicated_job)


def _with_missing(found: PathMatch, steps: Sequence[str | int]) -> str:
    """Return the path in an object, with the last step if only that is missing, such as a required field."""
    last = steps[-1] if steps and found.missing == 1 else None
    return _joined(found.path, last) if isinstance(last, str) and last.isidentifier() else found.path


def _named(runtime: Body) -> str:
    return f'{runtime["kind"]} "{runtime["metadata"]["name"]}" '


def _joined(base: str, path: str) -> str:
    return f"{base}.{path}" if base and path and not path.startswith("[") else f"{base}{path}"
