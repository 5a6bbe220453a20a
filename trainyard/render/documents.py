"""Rendering files: TrainJobs with their runtimes and the cluster objects that matter, as a cluster would see them.

Documents count in their order: a second one of the same kind and name is an update of the first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import yaml

from trainyard.api import (
    Body,
    ClusterTrainingRuntime,
    Runtime,
    TenantPolicy,
    TrainingRuntime,
    TrainJob,
    documents,
    parse,
)
from trainyard.api.constants import (
    API_VERSION,
    CLUSTER_TRAINING_RUNTIME,
    PLATFORM_API_VERSION,
    QUEUE_ANNOTATION,
    TRAIN_JOB,
    TRAINING_RUNTIME,
)
from trainyard.api.rules import IMMUTABLE
from trainyard.problem import Problem, TrainyardError
from trainyard.render.pipeline import render, validate
from trainyard.render.result import RenderContext, Rendered
from trainyard.render.runtimes import validate_runtime

__all__ = ["Answer", "render_documents"]

_IMMUTABLE_FIELDS: Final = ("runtime_ref", "initializer", "trainer", "active_deadline_seconds", "managed_by")


@dataclass(frozen=True)
class Answer:
    """What became of one TrainJob.

    Parameters
    ----------
    train_job
        Namespace and name.
    errors, warnings
        What was found.
    objects
        What would be created; empty where there are errors.
    """

    train_job: str
    errors: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()
    objects: tuple[Body, ...] = ()

    def as_json(self) -> Body:
        """Return the shape of the command-line contract."""
        return {
            "trainJob": self.train_job,
            "errors": [error.as_json() for error in self.errors],
            "warnings": [warning.as_json() for warning in self.warnings],
            "objects": list(self.objects),
        }


def render_documents(texts: Mapping[str, str]) -> list[Answer]:
    """Render every TrainJob of some files, sorted by namespace and name.

    Parameters
    ----------
    texts
        YAML or JSON text by the name of its source. They hold TrainJobs and runtimes; Namespaces, PriorityClasses and
        TenantPolicies are context: the queue of a namespace, and which priority classes exist. Other kinds are passed
        over.

    Raises
    ------
    TrainyardError
        A text is not YAML, or holds something that is no Kubernetes object.
    """
    scene = _Scene()
    for body in _objects(texts):
        scene.add(body)
    return [scene.answer(*key) for key in sorted(scene.train_jobs)]


@dataclass
class _Found:
    """A runtime, or why it is none."""

    runtime: Runtime | None
    errors: tuple[Problem, ...]


@dataclass
class _Scene:
    train_jobs: dict[tuple[str, str], list[Body]] = field(default_factory=dict)
    runtimes: dict[tuple[str, str, str], _Found] = field(default_factory=dict)
    queues: dict[str, str | None] = field(default_factory=dict)
    namespace_queues: dict[str, str | None] = field(default_factory=dict)
    priority_classes: set[str] | None = None

    def add(self, body: Body) -> None:
        """Take in one object."""
        kind, group = body["kind"], body["apiVersion"]
        name, namespace = _name(body), _namespace(body)
        if group == API_VERSION and kind == TRAIN_JOB:
            self.train_jobs.setdefault((namespace, name), []).append(body)
        elif group == API_VERSION and kind in (TRAINING_RUNTIME, CLUSTER_TRAINING_RUNTIME):
            key = kind, namespace if kind == TRAINING_RUNTIME else "", name
            self.runtimes[key] = _runtime(body, self.runtimes.get(key))
        elif group == PLATFORM_API_VERSION and kind == "TenantPolicy":
            self.queues[namespace] = parse(TenantPolicy, body).spec.default_queue
        elif group == "v1" and kind == "Namespace":
            self.namespace_queues[name] = (_metadata(body).get("annotations") or {}).get(QUEUE_ANNOTATION)
        elif group.startswith("scheduling.k8s.io/") and kind == "PriorityClass":
            self.priority_classes = (self.priority_classes or set()) | {name}

    def answer(self, namespace: str, name: str) -> Answer:
        """Return what becomes of one TrainJob after all its documents."""
        label = f"{namespace}/{name}"
        context = RenderContext(
            default_queue=self.queues.get(namespace) or self.namespace_queues.get(namespace),
            priority_classes=None if self.priority_classes is None else frozenset(self.priority_classes),
        )
        old: TrainJob | None = None
        answer = Answer(label)
        for body in self.train_jobs[namespace, name]:
            try:
                train_job = parse(TrainJob, body)
            except TrainyardError as error:
                return Answer(label, error.problems)
            answer = self._judged(label, train_job, old, context)
            if answer.errors:
                return answer
            old = train_job
        return answer

    def _judged(self, label: str, train_job: TrainJob, old: TrainJob | None, context: RenderContext) -> Answer:
        found = self._runtime_of(train_job)
        if found.errors:
            return Answer(label, found.errors)
        verdict = validate(train_job, found.runtime, context, old=old)
        errors = (*_changed(train_job, old), *verdict.errors)
        if errors or found.runtime is None:
            return Answer(label, errors, verdict.warnings)
        result = render(train_job, found.runtime, context)
        if isinstance(result, Rendered):
            return Answer(label, (), verdict.warnings, result.objects)
        return Answer(label, result.errors, verdict.warnings)

    def _runtime_of(self, train_job: TrainJob) -> _Found:
        reference = train_job.spec.runtime_ref if train_job.spec else None
        if reference is None:
            return _Found(None, ())
        namespace = (train_job.metadata.namespace or "default") if reference.kind == TRAINING_RUNTIME else ""
        return self.runtimes.get((reference.kind, namespace, reference.name), _Found(None, ()))


def _runtime(body: Body, before: _Found | None) -> _Found:
    namespaced = body["kind"] == TRAINING_RUNTIME
    try:
        runtime: Runtime = parse(TrainingRuntime, body) if namespaced else parse(ClusterTrainingRuntime, body)
    except TrainyardError as error:
        return _Found(None, tuple(_about(body, error.problems)))
    verdict = validate_runtime(runtime, before.runtime if before else None)
    return _Found(runtime, tuple(_about(body, verdict.errors)))


def _about(body: Body, problems: Iterable[Problem]) -> Iterator[Problem]:
    for problem in problems:
        message = f'{body["kind"]} "{_name(body)}" {problem.path}: {problem.message}'
        yield Problem("spec.runtimeRef", message, problem.fix, problem.rule)


def _changed(train_job: TrainJob, old: TrainJob | None) -> Iterator[Problem]:
    if old is None or train_job.spec is None or old.spec is None:
        return
    for name in _IMMUTABLE_FIELDS:
        before, after = getattr(old.spec, name), getattr(train_job.spec, name)
        if before is not None and after is not None and before != after:
            path = f"spec.{type(train_job.spec).model_fields[name].alias or name}"
            yield Problem(path, IMMUTABLE.text, "make a new TrainJob instead")


def _objects(texts: Mapping[str, str]) -> Iterator[Body]:
    for source, text in texts.items():
        try:
            found = list(documents(text))
        except yaml.YAMLError as error:
            reason = " ".join(str(error).split())
            raise TrainyardError(f"{source} is not valid YAML: {reason}", fix="correct the YAML") from error
        for index, body in enumerate(found):
            if not _is_object(body):
                raise TrainyardError(
                    f"Document {index + 1} of {source} is not a Kubernetes object",
                    fix="give every document apiVersion, kind and metadata.name",
                )
            yield body


def _is_object(body: Any) -> bool:
    return (
        isinstance(body, dict)
        and isinstance(body.get("apiVersion"), str)
        and isinstance(body.get("kind"), str)
        and isinstance(body.get("metadata"), dict)
        and isinstance(body["metadata"].get("name"), str)
        and isinstance(body["metadata"].get("namespace", ""), str)
    )


def _metadata(body: Body) -> Body:
    metadata: Body = body["metadata"]
    return metadata


def _name(body: Body) -> str:
    return str(_metadata(body)["name"])


def _namespace(body: Body) -> str:
    return str(_metadata(body).get("namespace") or "default")
