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
    Platform,
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
    MANAGED_BY_TRAINER,
    PLATFORM_API_VERSION,
    QUEUE_ANNOTATION,
    TRAIN_JOB,
    TRAINING_RUNTIME,
)
from trainyard.api.verdicts import decoded, violations
from trainyard.problem import Problem, TrainyardError
from trainyard.render.defaults import defaulted, wants_runtime
from trainyard.render.pipeline import render, validate
from trainyard.render.platform import context_of
from trainyard.render.result import RenderContext, Rendered
from trainyard.render.runtimes import validate_runtime

__all__ = ["Answer", "render_documents"]

_NOW: Final = "1970-01-01T00:00:00Z"
"""Stands for the time of admission, which no object shows."""


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
        YAML or JSON text by the name of its source. They hold TrainJobs and runtimes; Namespaces, PriorityClasses,
        TenantPolicies and the Platform are context: the queue of a namespace, which priority classes exist, and what
        the scheduler and the fabric offer. Other kinds are passed over. Jobs of another controller have no objects and
        are judged by their schema only: their runtime may be somewhere else.

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
    platform: Platform | None = None

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
        elif group == PLATFORM_API_VERSION and kind == "Platform":
            self.platform = parse(Platform, body)
        elif group == "v1" and kind == "Namespace":
            self.namespace_queues[name] = _annotation(body, QUEUE_ANNOTATION)
        elif group.startswith("scheduling.k8s.io/") and kind == "PriorityClass":
            self.priority_classes = (self.priority_classes or set()) | {name}

    def answer(self, namespace: str, name: str) -> Answer:
        """Return what becomes of one TrainJob after all its documents."""
        label = f"{namespace}/{name}"
        context = RenderContext(
            default_queue=self.queues.get(namespace) or self.namespace_queues.get(namespace),
            priority_classes=None if self.priority_classes is None else frozenset(self.priority_classes),
        )
        context = context_of(self.platform, context)
        old: TrainJob | None = None
        stored: Body | None = None
        answer = Answer(label)
        for sent in self.train_jobs[namespace, name]:
            body = self._admitted(sent, stored)
            try:
                train_job = parse(TrainJob, body)
            except TrainyardError as error:
                return Answer(label, error.problems)
            refused = tuple(violations(TrainJob, body, stored))
            ours = train_job.spec is None or train_job.spec.managed_by == MANAGED_BY_TRAINER
            answer = self._judged(label, train_job, old, context) if ours else Answer(label)
            errors = (*refused, *(error for error in answer.errors if error not in refused))
            if errors:
                return Answer(label, errors, answer.warnings)
            old, stored = train_job, body
        return answer

    def _admitted(self, sent: Body, stored: Body | None) -> Body:
        """Return a TrainJob as it is when it has been decoded and defaulted."""
        body = decoded(TrainJob, sent)
        runtime = None
        if wants_runtime(body):
            reference = body["spec"]["runtimeRef"]
            namespace = _namespace(body) if reference.get("kind") == TRAINING_RUNTIME else ""
            key = str(reference.get("kind")), namespace, str(reference.get("name"))
            runtime = self.runtimes.get(key, _Found(None, ())).runtime
        return defaulted(body, stored, _NOW, runtime)

    def _judged(self, label: str, train_job: TrainJob, old: TrainJob | None, context: RenderContext) -> Answer:
        found = self._runtime_of(train_job)
        if found.errors:
            return Answer(label, found.errors)
        verdict = validate(train_job, found.runtime, context, old=old)
        if verdict.errors or found.runtime is None:
            return Answer(label, verdict.errors, verdict.warnings)
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
    model = TrainingRuntime if namespaced else ClusterTrainingRuntime
    sent = decoded(model, body)
    try:
        runtime: Runtime = parse(TrainingRuntime, sent) if namespaced else parse(ClusterTrainingRuntime, sent)
    except TrainyardError as error:
        return _Found(None, tuple(_about(body, error.problems)))
    verdict = validate_runtime(runtime, before.runtime if before else None)
    found = {(error.path, error.rule) for error in verdict.errors}
    refused = (error for error in violations(model, sent) if (error.path, error.rule) not in found)
    return _Found(runtime, tuple(_about(body, (*verdict.errors, *refused))))


def _about(body: Body, problems: Iterable[Problem]) -> Iterator[Problem]:
    for problem in problems:
        message = f'{body["kind"]} "{_name(body)}" {problem.path}: {problem.message}'
        yield Problem("spec.runtimeRef", message, problem.fix, problem.rule)


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


def _annotation(body: Body, name: str) -> str | None:
    annotations = _metadata(body).get("annotations")
    value = annotations.get(name) if isinstance(annotations, dict) else None
    return value if isinstance(value, str) else None


def _namespace(body: Body) -> str:
    return str(_metadata(body).get("namespace") or "default")
