"""One job: explanation, pods, nodes, conditions, events, timeline, and the objects that were made from it."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from trainyard.cluster_state.body_fields import Body, condition, mapping, name_of, sequence, text, time, whole
from trainyard.cluster_state.cluster_index import kind_of
from trainyard.cluster_state.observed import Kind
from trainyard.cluster_state.redaction import redacted
from trainyard.insight.console.views.job_timeline import JobTimeline, StateChange, job_timeline
from trainyard.insight.console.views.platform_view import JobRow, PlatformView, age_text
from trainyard.insight.explain.explanation import Explanation
from trainyard.insight.explain.job_state import ExplainedState, JobState
from trainyard.insight.explain.named_objects import short_kind
from trainyard.manifests.dump import dump

_PODS: Final = 200
_EVENTS: Final = 100
_STEPS: Final = 100
_RENDERED: Final = 200_000
"""Characters of a rendered object."""


@dataclass(frozen=True)
class PodRow:
    """One pod: its phase, what its containers wait for, node, rack, restarts and containers."""

    name: str
    phase: str
    detail: str
    node: str
    domain: str
    restarts: int
    containers: tuple[str, ...]


@dataclass(frozen=True)
class ConditionRow:
    """A condition of one of its objects."""

    object: str
    type: str
    status: str
    reason: str
    message: str
    since: str


@dataclass(frozen=True)
class EventRow:
    """An event of one of its objects."""

    when: str
    object: str
    type: str
    reason: str
    message: str
    count: int


@dataclass(frozen=True)
class PartRow:
    """A part of the job as rendered: its pods, image, resources and names of environment variables."""

    name: str
    pods: int
    images: tuple[str, ...]
    resources: str
    variables: tuple[str, ...]


@dataclass(frozen=True)
class TimelineEntry:
    """An entry of the timeline."""

    when: datetime.datetime
    text: str
    style: str
    state: ExplainedState | None = None
    """State that begins, or None if none does, or it is unknown."""

    @property
    def shown(self) -> str:
        """The time, in UTC."""
        return self.when.astimezone(datetime.UTC).strftime("%Y-%m-%d %H:%M:%S")


@dataclass(frozen=True)
class JobPage:
    """One job.

    Parameters
    ----------
    row
        The job.
    age
        Time since its creation.
    explanation
        Why it waits or failed.
    runtime, runtime_state
        Its runtime, and whether it exists or is deprecated.
    pods, more_pods
        Its pods, and how many are not listed.
    conditions, events, timeline
        Those of its objects, and what happened to it, oldest first.
    phases
        When it waited, ran, was suspended, or waited for what was taken back.
    parts
        What was rendered from its runtime.
    rendered
        The rendered object as YAML, without commands and values of variables.
    """

    row: JobRow
    age: str
    explanation: Explanation
    runtime: str
    runtime_state: str
    pods: tuple[PodRow, ...]
    more_pods: int
    conditions: tuple[ConditionRow, ...]
    events: tuple[EventRow, ...]
    timeline: tuple[TimelineEntry, ...]
    phases: JobTimeline
    parts: tuple[PartRow, ...]
    rendered: str


def job_page(view: PlatformView, key: str, history: tuple[TimelineEntry, ...] = ()) -> JobPage | None:
    """Return the page of a job, or None if it does not exist.

    Parameters
    ----------
    view
        The platform.
    key
        Kind, namespace and name.
    history
        Changes of its state that were seen.
    """
    row = view.by_key.get(key)
    explanation = view.explain(key) if row is not None else None
    if row is None or explanation is None:
        return None
    job_state = JobState(view.cluster, view.roots[key])
    objects = [job_state.root, job_state.job_set, *job_state.jobs, job_state.pod_group]
    bodies = list({id(body): body for body in objects if body is not None}.values())
    runtime, state = _runtime(job_state)
    rendered = job_state.job_set if job_state.job_set is not None else job_state.root
    return JobPage(
        row=row,
        age=age_text(view.now, row.created),
        explanation=explanation,
        runtime=runtime,
        runtime_state=state,
        pods=tuple(_pod(view, pod) for pod in job_state.all_pods[:_PODS]),
        more_pods=max(0, len(job_state.all_pods) - _PODS),
        conditions=tuple(_conditions(bodies)),
        events=tuple(_events(view, [*bodies, *job_state.all_pods[:_PODS]])),
        timeline=tuple(_timeline(job_state, history)),
        phases=job_timeline(job_state, view.now, changes_of(history)),
        parts=tuple(_part(*each) for each in job_state.templates),
        rendered=dump(redacted(rendered))[:_RENDERED] if rendered is not job_state.root else "",
    )


def changes_of(history: Iterable[TimelineEntry]) -> list[StateChange]:
    """Return the changes of state in a history."""
    return [StateChange(step.when, step.state) for step in history if step.state is not None]


def _runtime(job_state: JobState) -> tuple[str, str]:
    reference = mapping(job_state.train_job, "spec", "runtimeRef")
    name = text(reference, "name")
    if not name:
        return "", ""
    namespaced = text(reference, "kind") == "TrainingRuntime"
    kind = Kind.RUNTIME if namespaced else Kind.CLUSTER_RUNTIME
    if not job_state.index.knows(kind):
        return name, "may not be read"
    found = job_state.index.find(kind, name, job_state.namespace if namespaced else "")
    if found is None:
        return name, "does not exist"
    deprecated = text(found, "metadata", "labels", "trainer.kubeflow.org/support") == "deprecated"
    return name, "deprecated" if deprecated else "installed"


def _pod(view: PlatformView, pod: Body) -> PodRow:
    statuses = [*sequence(pod, "status", "initContainerStatuses"), *sequence(pod, "status", "containerStatuses")]
    reasons = [text(pod, "status", "reason"), *(text(each, "state", "waiting", "reason") for each in statuses)]
    reasons += [text(each, "state", "terminated", "reason") for each in statuses]
    unplaced = text(condition(pod, "PodScheduled", "False"), "message")
    node = text(pod, "spec", "nodeName")
    spec = mapping(pod, "spec")
    return PodRow(
        name=name_of(pod),
        phase=text(pod, "status", "phase") or "Pending",
        detail=", ".join(dict.fromkeys(filter(None, reasons))) or ("" if node else unplaced),
        node=node,
        domain=view.racks.get(node, ""),
        restarts=sum(whole(each, "restartCount") for each in statuses),
        containers=tuple(
            text(each, "name") for name in ("initContainers", "containers") for each in sequence(spec, name)
        ),
    )


def _conditions(bodies: list[Body]) -> Iterator[ConditionRow]:
    for body in bodies:
        for each in sequence(body, "status", "conditions"):
            yield ConditionRow(
                object=_name(body),
                type=text(each, "type"),
                status=text(each, "status"),
                reason=text(each, "reason"),
                message=text(each, "message"),
                since=text(each, "lastTransitionTime"),
            )


def _events(view: PlatformView, bodies: list[Body]) -> list[EventRow]:
    rows = [
        EventRow(
            when=text(event, "lastTimestamp") or text(event, "eventTime"),
            object=_name(body),
            type=text(event, "type"),
            reason=text(event, "reason"),
            message=text(event, "message"),
            count=max(1, whole(event, "count")),
        )
        for body in bodies
        for event in view.index.events(body)
    ]
    return sorted(rows, key=lambda row: row.when)[-_EVENTS:]


def _timeline(job_state: JobState, history: tuple[TimelineEntry, ...]) -> list[TimelineEntry]:
    found = list(history)
    created = time(job_state.root, "metadata", "creationTimestamp")
    if created is not None:
        found.append(TimelineEntry(created, "created", "waiting"))
    placed = [
        when
        for pod in job_state.all_pods
        if (when := time(condition(pod, "PodScheduled"), "lastTransitionTime")) is not None
    ]
    if placed:
        found.append(TimelineEntry(min(placed), "first pod placed", "running"))
    if len(placed) > 1 and len(placed) == len(job_state.all_pods):
        found.append(TimelineEntry(max(placed), "last pod placed", "running"))
    for body in (job_state.root, job_state.job_set):
        for each in sequence(body, "status", "conditions"):
            when = time(each, "lastTransitionTime")
            if when is not None and each.get("status") == "True":
                style = "failed" if text(each, "type") == "Failed" else "other"
                found.append(
                    TimelineEntry(when, f"{_name(body)}: {text(each, 'type')} ({text(each, 'reason')})", style)
                )
    for event in job_state.index.events(job_state.root if job_state.pod_group is None else job_state.pod_group):
        when = time(event, "lastTimestamp") or time(event, "eventTime")
        if when is not None and text(event, "reason") in ("Evict", "Evicted", "Preempted"):
            found.append(TimelineEntry(when, f"taken back: {text(event, 'message')}", "failed"))
    for pod in job_state.all_pods:
        lost = condition(pod, "DisruptionTarget")
        when = time(lost, "lastTransitionTime")
        if when is not None:
            found.append(TimelineEntry(when, f"{name_of(pod)} taken back: {text(lost, 'message')}", "failed"))
    return sorted(found, key=lambda step: step.when)[-_STEPS:]


def _part(name: str, template: Body, count: int) -> PartRow:
    spec = mapping(template, "spec")
    containers = [*sequence(spec, "initContainers"), *sequence(spec, "containers")]
    resources = []
    for each in containers:
        requests = {**mapping(each, "resources", "limits"), **mapping(each, "resources", "requests")}
        own = ", ".join(f"{key} {value}" for key, value in sorted(requests.items()))
        if own:
            resources.append(f"{text(each, 'name')}: {own}")
    variables = [text(each, "name") for container in containers for each in sequence(container, "env")]
    return PartRow(
        name=name,
        pods=count,
        images=tuple(dict.fromkeys(text(each, "image") for each in containers)),
        resources="; ".join(resources),
        variables=tuple(dict.fromkeys(filter(None, variables))),
    )


def _name(body: Body | None) -> str:
    return f"{short_kind(kind_of(body))} {name_of(body)}" if body is not None else ""
