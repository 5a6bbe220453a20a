"""Immutable fields of a TrainJob, and the conditions under which others may change."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from trainyard.api import Body, KubernetesModel, TrainJob, TrainJobSpec
from trainyard.api.constants import KUEUE_QUEUE_LABEL
from trainyard.api.go_types import JOB_SET_SPEC, JOB_SPEC, comparable
from trainyard.checks.finding import Finding
from trainyard.jobs.render.pod_editing import stored
from trainyard.jobs.render.result import RenderContext

_FIELDS: Final[Mapping[str, tuple[str, Callable[[TrainJobSpec], Any]]]] = {
    "podSpecOverrides": ("PodSpecOverrides", lambda spec: spec.pod_spec_overrides),
    "podTemplateOverrides": ("PodTemplateOverrides", lambda spec: spec.pod_template_overrides),
    "runtimePatches": ("RuntimePatches", lambda spec: spec.runtime_patches),
}
_COMPARED: Final = tuple(name for name in TrainJobSpec.model_fields if name != "suspend")
_STAMP: Final = "time"
_MUTABLE_METADATA: Final = ("labels", "annotations")
_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
_REVIEWED_METADATA: Final = (*_MUTABLE_METADATA, "ownerReferences")
_MUTABLE_POD_FIELDS: Final = ("nodeSelector", "tolerations", "schedulingGates")


def leaves_objects(train_job: TrainJob, old: TrainJob) -> bool:
    """Return whether an update requires no rendering: it changes only metadata, or suspends the job.

    Such an update is allowed even if the runtime has become invalid or was deleted. A job that joins a queue of Kueue
    is validated, because Kueue places and counts its pods in its own way.
    """
    spec, before = train_job.spec, old.spec
    if spec is None or before is None or train_job.metadata.name != old.metadata.name:
        return False
    if _is_queued(train_job.metadata.labels) and not _is_queued(old.metadata.labels):
        return False
    return (spec.suspend or not before.suspend) and equal_except_suspend(spec, before)


def stops(train_job: Body, old: Body) -> bool:
    """Return whether an update suspends the job and changes nothing else that is reviewed.

    It starts nothing and is therefore allowed as it is: whatever the stored spec, the runtime and the rules say, and
    whether a policy server answers.
    """
    spec, before = train_job.get("spec"), old.get("spec")
    if not isinstance(spec, dict) or not isinstance(before, dict) or spec.get("suspend") is not True:
        return False
    return (
        not before.get("suspend")
        and {**before, "suspend": True} == spec
        and _reviewed(train_job["metadata"]) == _reviewed(old["metadata"])
    )


def _reviewed(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metadata that rules review, without the record that `kubectl apply` keeps for itself."""
    reviewed = {part: metadata.get(part) or {} for part in _REVIEWED_METADATA}
    return {**reviewed, "annotations": {**reviewed["annotations"], _LAST_APPLIED: ""}}


def joins_queue(train_job: Body, old: Body) -> bool:
    """Return whether an update adds a job to a queue of Kueue."""
    return _is_queued(train_job["metadata"].get("labels")) and not _is_queued(old["metadata"].get("labels"))


def waits_in_queue(train_job: TrainJob, old: TrainJob) -> bool:
    """Return whether a job in a queue of Kueue is suspended after an update.

    Kueue removes its overrides from a job that it evicts, and frees the quota only then. Errors that the stored job
    has already therefore do not reject such an update; they reject the job when it resumes.
    """
    suspended = train_job.spec is not None and train_job.spec.suspend
    return suspended and _is_queued(train_job.metadata.labels) and _is_queued(old.metadata.labels)


def _is_queued(labels: Mapping[str, str] | None) -> bool:
    return bool((labels or {}).get(KUEUE_QUEUE_LABEL))


def equal_except_suspend(spec: TrainJobSpec, before: TrainJobSpec) -> bool:
    """Return whether two specifications are equal, ignoring ``suspend``."""
    changed = [name for name in _COMPARED if getattr(spec, name) != getattr(before, name)]
    return not changed or _of_fields(spec, changed) == _of_fields(before, changed)


def check_changes(train_job: TrainJob, old: TrainJob, context: RenderContext) -> Iterator[Finding]:
    """Yield changes of overrides and patches while pods run with the previous ones.

    A different order is a change; a different timestamp alone is not.
    """
    if train_job.spec is None or old.spec is None:
        return
    for field, (title, value) in _FIELDS.items():
        if _comparable(field, value(train_job.spec)) == _comparable(field, value(old.spec)):
            continue
        path = f"spec.{field}"
        if not (old.spec.suspend or train_job.spec.suspend):
            yield Finding(
                path,
                f"{title} can only be modified when the TrainJob is suspended before or after the update",
                "set spec.suspend to true in the same update",
            )
            continue
        for name in context.active_replicated_jobs:
            yield Finding(
                path,
                f"{title} cannot be modified when the JobSet's ReplicatedJob {name} is still active",
                "wait until its pods are gone",
            )


def immutable_changes(job_set: Body, old: Body) -> Iterator[Finding]:
    """Yield changes of fields that are immutable in an existing JobSet.

    Parameters
    ----------
    job_set, old
        JobSet specifications after and before the update.
    """
    before = {job["name"]: job for job in comparable(JOB_SET_SPEC, old)["replicatedJobs"]}
    for job in comparable(JOB_SET_SPEC, job_set)["replicatedJobs"]:
        if job["name"] not in before:
            continue
        for field in sorted(_differences(job, before[job["name"]])):
            yield Finding(
                "spec",
                f'changes {field} of "{job["name"]}", which is immutable in an existing JobSet',
                "none if its pods are gone when it resumes: the JobSet is recreated; otherwise it resumes unchanged",
            )


def _of_fields(spec: TrainJobSpec, names: list[str]) -> Any:
    """Return fields for comparison: equal quantities are equal in every notation."""
    body = stored(spec)
    aliases = [TrainJobSpec.model_fields[name].alias or name for name in names]
    return comparable(JOB_SPEC, {alias: body[alias] for alias in aliases if alias in body})


def _comparable(field: str, entries: list[KubernetesModel] | None) -> Any:
    bodies = [{name: value for name, value in stored(entry).items() if name != _STAMP} for entry in entries or ()]
    return _without_empty(comparable(JOB_SPEC, {field: bodies}))


def _without_empty(value: Any) -> Any:
    """Normalize a value for comparison: as in API machinery, empty lists and objects equal unset ones."""
    if isinstance(value, dict):
        inner = {name: _without_empty(item) for name, item in value.items()}
        return {name: item for name, item in inner.items() if item not in (None, {}, [])}
    if isinstance(value, list):
        return [_without_empty(item) for item in value]
    return value


def _differences(job: Body, old: Body) -> Iterator[str]:
    yield from _different(job, old, "", ("template",))
    template, before = job["template"], old["template"]
    yield from _different(template.get("metadata", {}), before.get("metadata", {}), "Job template metadata.")
    yield from _different(template["spec"], before["spec"], "Job ", ("template",))
    pods, old_pods = template["spec"]["template"], before["spec"]["template"]
    yield from _different(
        pods.get("metadata", {}), old_pods.get("metadata", {}), "pod template metadata.", _MUTABLE_METADATA
    )
    yield from _different(pods["spec"], old_pods["spec"], "pod ", _MUTABLE_POD_FIELDS)


def _different(value: Body, old: Body, label: str, ignored: tuple[str, ...] = ()) -> Iterator[str]:
    for name in {*value, *old} - set(ignored):
        if _without_empty(value.get(name)) != _without_empty(old.get(name)):
            yield f"{label}{name}"
