"""Render manifests offline: TrainJobs with their runtimes and the cluster objects that affect them.

Documents are applied in order: a later object of the same kind and name is an update of the earlier one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from trainyard.api import Body, Platform, TenantPolicy, parse
from trainyard.api.constants import API_VERSION, PLATFORM_API_VERSION, QUEUE_ANNOTATION, TRAIN_JOB, TRAINING_RUNTIME
from trainyard.checks.finding import Finding
from trainyard.errors import TrainyardError
from trainyard.jobs.render.generated_names import generated_name
from trainyard.jobs.render.job_errors import Validate, train_job_findings
from trainyard.jobs.render.platform_facts import context_of
from trainyard.jobs.render.result import RenderContext
from trainyard.jobs.render.submission import RUNTIME_MODELS, SentRuntime, Submission, read_runtime, submitted
from trainyard.manifests.documents import objects


@dataclass(frozen=True)
class RenderedTrainJob:
    """Result of rendering one TrainJob.

    Parameters
    ----------
    train_job
        Namespace and name.
    errors, warnings
        Findings of schema and admission.
    objects
        Rendered objects; empty if there are errors.
    rejected
        Whether the errors are those of the API server about the Jobs of the rendered objects.
    """

    train_job: str
    errors: tuple[Finding, ...] = ()
    warnings: tuple[Finding, ...] = ()
    objects: tuple[Body, ...] = ()
    rejected: bool = False

    def as_json(self) -> Body:
        """Return the result as JSON of the command-line contract."""
        return {
            "trainJob": self.train_job,
            "errors": [error.as_json() for error in self.errors],
            "warnings": [warning.as_json() for warning in self.warnings],
            "objects": list(self.objects),
        }


@dataclass(frozen=True)
class RuntimeSource:
    """Runtimes and contexts that the documents do not set.

    Parameters
    ----------
    runtime
        Returns a runtime by kind, namespace and name; None: it does not exist.
    context
        Returns the render context of a namespace.
    """

    runtime: Callable[[str, str, str], SentRuntime | None] = lambda *_: None
    context: Callable[[str], RenderContext] = lambda _: RenderContext()


def render_documents(
    texts: Mapping[str, str], source: RuntimeSource | None = None, *, validate: Validate | None = None
) -> list[RenderedTrainJob]:
    """Render all TrainJobs, sorted by namespace and name.

    Parameters
    ----------
    texts
        YAML or JSON by name of its source: TrainJobs and runtimes. Namespaces, PriorityClasses, TenantPolicies and the
        Platform provide context: the queue of a namespace, existing priority classes, scheduler features and the tiers
        of the fabric. Other kinds are ignored. TrainJobs that are managed by another controller have no objects, and
        only their schema is validated: their runtime may be in another cluster.
    source
        Runtimes and context that no document sets; None: there are none.
    validate
        Returns the API server's errors about Jobs; None: Jobs are not validated.

    Raises
    ------
    TrainyardError
        A text is not YAML, or a document is not a Kubernetes object.
    """
    cluster = _Cluster(source or RuntimeSource())
    for body in _objects(texts):
        cluster.add(body)
    return [_validated(cluster.render(*key), "/".join(key[:2]), validate) for key in sorted(cluster.train_jobs)]


def _validated(submission: Submission[SentRuntime], label: str, validate: Validate | None) -> RenderedTrainJob:
    errors, objects, rejected = submission.errors, submission.objects, False
    if validate is not None and objects and submission.train_job is not None and submission.runtime is not None:
        errors = train_job_findings(submission.train_job, submission.runtime.body, objects, validate)
        rejected = bool(errors)
    return RenderedTrainJob(label, errors, submission.warnings, () if errors else objects, rejected)


@dataclass
class _Cluster:
    """Objects of the manifests, by their keys."""

    source: RuntimeSource
    train_jobs: dict[tuple[str, str, int], list[Body]] = field(default_factory=dict)
    runtimes: dict[tuple[str, str, str], list[Body]] = field(default_factory=dict)
    read: dict[tuple[str, str, str], SentRuntime] = field(default_factory=dict)
    queues: dict[str, str | None] = field(default_factory=dict)
    namespace_queues: dict[str, str | None] = field(default_factory=dict)
    priority_classes: set[str] | None = None
    platform: Platform | None = None

    def add(self, body: Body) -> None:
        """Add one object."""
        kind, group = body["kind"], body["apiVersion"]
        name, namespace = _name(body), _namespace(body)
        if group == API_VERSION and kind == TRAIN_JOB:
            # The API server creates a new object for each document with generateName.
            number = len(self.train_jobs) if generated_name(body) else 0
            self.train_jobs.setdefault((namespace, name, number), []).append(body)
        elif group == API_VERSION and kind in RUNTIME_MODELS:
            key = kind, namespace if kind == TRAINING_RUNTIME else "", name
            self.runtimes.setdefault(key, []).append(body)
        elif group == PLATFORM_API_VERSION and kind == "TenantPolicy":
            self.queues[namespace] = parse(TenantPolicy, body).spec.default_queue
        elif group == PLATFORM_API_VERSION and kind == "Platform":
            self.platform = parse(Platform, body)
        elif group == "v1" and kind == "Namespace":
            self.namespace_queues[name] = _annotation(body, QUEUE_ANNOTATION)
        elif group.startswith("scheduling.k8s.io/") and kind == "PriorityClass":
            self.priority_classes = (self.priority_classes or set()) | {name}

    def render(self, namespace: str, name: str, number: int) -> Submission[SentRuntime]:
        """Render one TrainJob after applying all its documents."""
        context = self.source.context(namespace)
        if queue := self.queues.get(namespace) or self.namespace_queues.get(namespace):
            context = replace(context, default_queue=queue)
        if self.priority_classes is not None:
            context = replace(
                context, priority_classes=(context.priority_classes or frozenset()) | self.priority_classes
            )
        context = context_of(self.platform, context)
        before: Submission[SentRuntime] | None = None
        for sent in self.train_jobs[namespace, name, number]:
            before = submitted(sent, partial(self._runtime, namespace), _runtime_findings, context, before=before)
            if before.errors:
                break
        assert before is not None  # noqa: S101
        return before

    def _runtime(self, namespace: str, kind: str, name: str) -> SentRuntime | None:
        """Return a runtime after applying all its documents, with the gates of a Platform in any document."""
        key = kind, namespace if kind == TRAINING_RUNTIME else "", name
        if key in self.runtimes and key not in self.read:
            gates = context_of(self.platform, RenderContext()).job_set_gates
            found: SentRuntime | None = None
            for sent in self.runtimes[key]:
                found = read_runtime(sent, found.runtime if found else None, job_set_gates=gates)
            assert found is not None  # noqa: S101
            self.read[key] = found
        return self.read.get(key) or self.source.runtime(kind, namespace, name)


def _runtime_findings(runtime: SentRuntime) -> Iterator[Finding]:
    body = runtime.body
    for finding in runtime.errors:
        message = f'{body["kind"]} "{_name(body)}" {finding.path}: {finding.message}'
        yield Finding("spec.runtimeRef", message, finding.fix, finding.rule)


def _objects(texts: Mapping[str, str]) -> Iterator[Body]:
    for source, text in texts.items():
        for index, body in enumerate(objects(text, source)):
            if not _is_object(body):
                raise TrainyardError(
                    f"Document {index + 1} of {source} is not a Kubernetes object",
                    fix="give every document apiVersion, kind and metadata.name, or metadata.generateName",
                )
            yield body


def _is_object(body: Any) -> bool:
    return (
        isinstance(body, dict)
        and isinstance(body.get("apiVersion"), str)
        and isinstance(body.get("kind"), str)
        and isinstance(body.get("metadata"), dict)
        and (isinstance(body["metadata"].get("name"), str) or generated_name(body) is not None)
        and isinstance(body["metadata"].get("namespace", ""), str)
    )


def _metadata(body: Body) -> Body:
    metadata: Body = body["metadata"]
    return metadata


def _name(body: Body) -> str:
    return generated_name(body) or str(_metadata(body)["name"])


def _annotation(body: Body, name: str) -> str | None:
    annotations = _metadata(body).get("annotations")
    value = annotations.get(name) if isinstance(annotations, dict) else None
    return value if isinstance(value, str) else None


def _namespace(body: Body) -> str:
    return str(_metadata(body).get("namespace") or "default")
