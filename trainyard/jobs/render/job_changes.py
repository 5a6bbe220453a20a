"""Changes of a TrainJob to its runtime's template, from all three generations of fields.

The fields podSpecOverrides (v2.0), podTemplateOverrides (v2.1) and runtimePatches (v2.2 and later) are converted by
their own modules to `ReplicatedJobChange`, which is validated and merged here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from trainyard.api import Body
from trainyard.api.constants import CONTAINER_NODE, DATASET_INITIALIZER, MODEL_INITIALIZER
from trainyard.api.structural import schema_violations
from trainyard.checks.finding import Finding
from trainyard.jobs.render.merge import strategic_merge
from trainyard.jobs.render.pod_editing import copied
from trainyard.jobs.render.pod_set import PodSet, container_names
from trainyard.jobs.render.shape import ENV, VOLUME_MOUNTS, pod_fields
from trainyard.jobs.render.template import Template

MOST_OVERRIDES: Final = 256
"""Changes that the overrides of one TrainJob may make; each is merged into a whole pod template.

The schema bounds runtimePatches, but not the overrides of earlier API versions.
"""

_CONFIGURED = (DATASET_INITIALIZER, MODEL_INITIALIZER, CONTAINER_NODE)
_CONTAINER_KINDS = {"initContainers": "initContainer", "containers": "container"}


@dataclass(frozen=True)
class Generation:
    """A TrainJob field that changes the runtime's template.

    Parameters
    ----------
    field
        Name of the field in the TrainJob's spec.
    target
        Term for a replicatedJob in its API documentation and messages.
    bounded
        Whether the schema bounds the number of changes.
    """

    field: str
    target: str
    bounded: bool = False

    @property
    def path(self) -> str:
        """Return the path of the field."""
        return f"spec.{self.field}"


@dataclass(frozen=True)
class ReplicatedJobChange:
    """Change of one replicatedJob by one entry.

    Parameters
    ----------
    generation
        The field that contains the entry.
    pod_path
        Path of the pod specification to merge, in the TrainJob.
    job
        Name of the replicatedJob.
    template
        Fields of its Job template to merge; shared, must not be modified.
    by_kueue
        Whether Kueue added the entry when it admitted the job.
    """

    generation: Generation
    pod_path: str
    job: str
    template: Body
    by_kueue: bool = False

    @property
    def pod(self) -> Body:
        """Return the fields of the pod specification."""
        found: Body = self.template.get("spec", {}).get("template", {}).get("spec", {})
        return found


def check_number(changes: Sequence[ReplicatedJobChange]) -> Iterator[Finding]:
    """Yield fields with more changes than are merged; checked before anything else is done with them."""
    if len(changes) <= MOST_OVERRIDES:
        return
    for generation, number in Counter(change.generation for change in changes if not change.generation.bounded).items():
        if number > MOST_OVERRIDES:
            yield Finding(
                generation.path,
                f"changes {number} {generation.target}s; at most {MOST_OVERRIDES} are supported",
                "use runtimePatches, or one entry for each replicatedJob",
            )


def change_shape_errors(changes: Sequence[ReplicatedJobChange]) -> Iterator[Finding]:
    """Yield fields that do not match the schema of their Kubernetes type."""
    for change in changes:
        pod = change.pod
        for name in pod:
            if name in pod_fields() and name not in _CONTAINER_KINDS:
                yield from schema_violations(pod[name], pod_fields()[name], f"{change.pod_path}.{name}")
        for kind in _CONTAINER_KINDS:
            for number, container in enumerate(pod.get(kind, ())):
                for name, shape in (("env", ENV), ("volumeMounts", VOLUME_MOUNTS)):
                    if name in container:
                        yield from schema_violations(
                            container[name], shape, f"{change.pod_path}.{kind}[{number}].{name}"
                        )


def check_targets(changes: Sequence[ReplicatedJobChange], template: Template) -> Iterator[Finding]:
    """Yield changes of replicatedJobs and containers that do not exist, and of env that other TrainJob fields set."""
    known = {job["name"]: job for job in template.jobs}
    for change in changes:
        job = known.get(change.job)
        if job is None:
            yield Finding(
                change.generation.path,
                f"must not have {change.generation.target} that doesn't exist in the runtime job template: "
                f'"{change.job}"',
                f"name one of {', '.join(known)}",
            )
        elif change.pod:
            yield from _container_faults(change, set(container_names(job)))


def merge_changes(spec: Body, changes: Sequence[ReplicatedJobChange]) -> None:
    """Merge changes into a JobSet specification in order; later ones take precedence.

    The tolerations of a flavor, which Kueue adds, do not replace those of the job.

    Parameters
    ----------
    spec
        A copy of the runtime's JobSet specification; modified in place.
    """
    jobs = {job["name"]: job for job in spec.get("replicatedJobs", ())}
    admitted: list[tuple[Body, list[Body]]] = []
    for change in changes:
        job, template = jobs[change.job], copied(change.template)
        if change.by_kueue and "tolerations" in change.pod:
            admitted.append((job, template["spec"]["template"]["spec"].pop("tolerations")))
        job["template"] = strategic_merge(job["template"], template)
    for job, tolerations in admitted:
        pod = PodSet(job, 1).pod
        own = pod.get("tolerations", [])
        known = {_identity(toleration) for toleration in own}
        pod["tolerations"] = [*own, *(toleration for toleration in tolerations if _identity(toleration) not in known)]


def _identity(toleration: Body) -> tuple[object, ...]:
    """Return what a toleration tolerates, without the time."""
    operator = toleration.get("operator") or "Equal"
    return (operator, *(toleration.get(name, "") for name in ("key", "value", "effect")))


def _container_faults(change: ReplicatedJobChange, known: set[str]) -> Iterator[Finding]:
    path = change.generation.path
    for field, kind in _CONTAINER_KINDS.items():
        for container in change.pod.get(field, ()):
            name = container["name"]
            if name not in known:
                yield Finding(
                    path,
                    f'must not have {kind} that doesn\'t exist in the runtime job {change.job}: "{name}"',
                    f"name one of {', '.join(sorted(known))}",
                )
            elif kind == "container" and container.get("env") and name in _CONFIGURED:
                where = "spec.trainer.env" if name == CONTAINER_NODE else "spec.initializer"
                yield Finding(path, f"must not have envs for the {', '.join(_CONFIGURED)} containers", f"use {where}")
